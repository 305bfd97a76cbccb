"""Other libraries, one module for each, which are imported only when a benchmark asks for them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bitspike.bench.contender import Contender
from bitspike.bench.known_peers import KNOWN
from bitspike.bench.problem import Problem


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a library; `fits` tells for which problems it gets a row of its own."""

    name: str
    make: Callable[[Problem], Contender]
    fits: Callable[[Problem], bool] = lambda problem: True


def named(text: str) -> list[str]:
    """Return the libraries that --against names: names separated by commas, "all" (those installed) or "none"."""
    names = [name for name in (part.strip() for part in text.split(",")) if name]
    if names == ["none"]:
        return []
    if names == ["all"]:
        return [name for name in KNOWN if installed(name)]
    for name in names:
        if name not in KNOWN:
            raise ValueError(f"bench: no peer is named {name!r}; known: {', '.join(KNOWN)}, and alone all or none")
    require(names)
    return list(dict.fromkeys(names))


def absent(text: str) -> dict[str, str]:
    """Return the libraries that "all" leaves out because they are not installed, with how to install each."""
    return {name: how for name, how in KNOWN.items() if not installed(name)} if text.strip() == "all" else {}


def installed(name: str) -> bool:
    """Return True if Python finds the library; it is not imported."""
    return importlib.util.find_spec(name) is not None


def require(names: Iterable[str]) -> None:
    """Raise an error that says what to run unless all of these libraries are installed."""
    for name in names:
        if not installed(name):
            raise ModuleNotFoundError(f"bench: {name} is not installed; run: {KNOWN[name]}")


def library(module: str) -> Any:
    """Import a module of a peer, without types, because it may not be installed where types are checked."""
    return importlib.import_module(module)


def variants(name: str) -> Sequence[Variant]:
    """Return the ways in which a library is run."""
    found: Sequence[Variant] = importlib.import_module(f"bitspike.bench.peers.{name}").VARIANTS
    return found
