"""The one C extension: it is loaded here, and each op's `c.py` declares the functions of its own C file."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from functools import cache

import torch
from torch import Tensor

from bitspike.ops.available import transformed
from bitspike.ops.checks import is_ordinary
from bitspike.ops.lif.surrogate import CODES

POINTER, COUNT, NUMBER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int  # C's `void *`, `int64_t` and `int`
_INTERFACE = 5  # of native/interface.c
_signatures: dict[str, tuple[type | None, tuple[type, ...]]] = {}  # by name: the result's type, the arguments' types


def declare(name: str, *arguments: type, result: type | None = NUMBER) -> None:
    """Register the signature of a C function, for when the library is loaded."""
    _signatures[name] = result, arguments
    library.cache_clear()


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled kernels; None if they were not built, do not load, or were built from other sources."""
    spec = importlib.util.find_spec("bitspike.ops.native._native")
    if spec is None or spec.origin is None:
        return None
    try:
        loaded = ctypes.CDLL(spec.origin)
        if loaded.bitspike_interface() != _INTERFACE or loaded.bitspike_surrogates() != len(CODES):
            return None
        for name, (result, arguments) in _signatures.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return loaded


def kernels() -> ctypes.CDLL:
    """Return the compiled kernels; only for callers that have checked `usable` or `library` before."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("bitspike.ops.native: the compiled kernels are missing; ask usable() first")
    return loaded


def usable(x: Tensor, backend: str = "auto") -> bool:
    """Return whether a layer with this `backend` may run in C on `x`: only "auto", float32, on the CPU."""
    if os.environ.get("BITSPIKE_BACKEND", "auto") not in ("", "auto") or backend != "auto":
        return False
    if not is_ordinary(x, x.shape, x.device) or x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return False
    return x.numel() > 0 and library() is not None and not transformed()


def address(tensor: Tensor | None) -> int | None:
    """Return where a tensor lies in memory, for C; None is C's NULL."""
    return None if tensor is None else tensor.data_ptr()


def succeed(name: str, failed: int) -> None:
    """Raise MemoryError if the kernel `name` reports that it had too little memory."""
    if failed:
        raise MemoryError(f"{name}: no memory for the scratch of {failed} threads")
