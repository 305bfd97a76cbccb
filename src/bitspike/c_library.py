"""The one C extension: it is loaded here, without PyTorch. Who calls a C function declares it, beside the C file."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

POINTER, COUNT, NUMBER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int  # C's `void *`, `int64_t` and `int`
_FOLDER = Path(__file__).parent / "ops" / "native"
_INTERFACE = 7  # of native/interface.c
_signatures: dict[str, tuple[type | None, tuple[type, ...]]] = {}  # by name: the result's type, the arguments' types
_answers: dict[str, int] = {}  # by name: what a function without arguments must return


def declare(name: str, *arguments: type, result: type | None = NUMBER) -> None:
    """Register the signature of a C function, for when the library is loaded."""
    _signatures[name] = result, arguments
    library.cache_clear()


def expect(name: str, answer: int) -> None:
    """Register what a function without arguments must return; a library that returns anything else is not used."""
    _answers[name] = answer
    library.cache_clear()


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled functions; None if they were not built, do not load, or were built from other sources."""
    spec = PathFinder.find_spec("_native", [str(_FOLDER)])  # by its folder: a full name would import PyTorch
    if spec is None or spec.origin is None:
        return None
    try:
        loaded = _opened(spec.origin)
        wanted = {"bitspike_interface": _INTERFACE, **_answers}
        if any(getattr(loaded, name)() != answer for name, answer in wanted.items()):
            return None
        for name, (result, arguments) in _signatures.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return loaded


def _opened(origin: str) -> ctypes.CDLL:
    """Return the library; where the system lacks OpenMP's library, PyTorch brings it."""
    try:
        return ctypes.CDLL(origin)
    except OSError:
        if "torch" in sys.modules:
            raise
        import torch  # noqa: F401

        return ctypes.CDLL(origin)


def kernels() -> ctypes.CDLL:
    """Return the compiled functions; only for callers that have asked `library` before."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("bitspike.c_library: the compiled kernels are missing; ask library() first")
    return loaded
