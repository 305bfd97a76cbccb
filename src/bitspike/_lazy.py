"""Imports on first use, so that code without PyTorch need not wait for it; and errors for missing libraries."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# What the extra `train` brings, by the names under which it is imported.
TRAIN = ("pydantic", "numpy", "h5py", "safetensors", "tomli_w", "platformdirs", "tensorboard")


def lazy(
    package: str, names: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package (PEP 562), which import a name when it is first used.

    `names` are listed by the module that holds them. `modules` are the package's public modules. Its other modules can
    be reached as attributes too, but `dir` does not list them.
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
    """Return the error line for `what`, which needs a missing library of the extra `train`."""
    return _to_install(f"{what} needs {library}")


def not_installed(library: str, why: str, *, extra: str = "train", otherwise: str = "") -> ModuleNotFoundError:
    """Return the error for a library that is not installed: why it is needed, and what to run.

    `why` ends with the library's name, as in "experiments need pydantic". `otherwise` is another way out.
    """
    return ModuleNotFoundError(_to_install(why, extra) + (f", {otherwise}" if otherwise else ""), name=library)


def _to_install(why: str, extra: str = "train") -> str:
    return f"{why}, which is not installed; run: pip install 'bitspike[{extra}]'"
