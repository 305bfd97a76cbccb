"""Names that are imported when they are first used: what needs no PyTorch does not wait for it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TRAIN = ("pydantic", "numpy", "h5py", "safetensors", "tomli_w", "platformdirs")  # what the extra `train` brings


def lazy(
    package: str, names: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562): `names` by the module that has them, and public `modules`.

    Other modules of the package are attributes too, but are not listed.
    """
    home = {name: module for module, held in names.items() for name in held}

    def get(name: str) -> Any:
        if name in home:
            value = getattr(_imported(home[name], f"{package}.{name}"), name)
            setattr(sys.modules[package], name, value)  # the next use does not come here
            return value
        if not name.startswith("_"):
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listed() -> list[str]:
        held = vars(sys.modules[package])
        return sorted({*held.get("__all__", ()), *modules, *(name for name in held if name.startswith("__"))})

    return get, listed


def _imported(module: str, wanted: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in TRAIN:
            raise
        raise ModuleNotFoundError(needs(error.name, wanted), name=error.name) from None


def needs(library: str, what: str) -> str:
    """The line about a library of the extra `train` that is not there."""
    return f"{what} needs {library}, which is not installed; run: pip install 'bitspike[train]'"
