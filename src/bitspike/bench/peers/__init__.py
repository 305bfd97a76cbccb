"""Other libraries, a module each, loaded only when asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bitspike.bench.contender import Contender
from bitspike.bench.problem import Problem


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a library. `fits` says for which problems it is worth a row of its own."""

    name: str
    make: Callable[[Problem], Contender]
    fits: Callable[[Problem], bool] = lambda problem: True


# Name: what to install. Each must come after torch, of which they would else bring another build.
KNOWN = {
    "snntorch": "pip install snntorch==1.0.0",
    "spikingjelly": "pip install --no-deps spikingjelly==2.0.0 && pip install loguru scipy tqdm",
    "norse": "pip install --no-deps norse==1.1.0 && pip install nir nirtorch",
    "spyx": "pip install spyx==1.0.0 and JAX for your GPU",
}


def named(text: str) -> list[str]:
    """From what --against says: names with commas between, "all" (those installed) or "none"."""
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
    """Those that "all" leaves out as they are not installed, and how they would be."""
    return {name: how for name, how in KNOWN.items() if not installed(name)} if text.strip() == "all" else {}


def installed(name: str) -> bool:
    """Whether Python finds the library; it is not imported."""
    return importlib.util.find_spec(name) is not None


def require(names: Iterable[str]) -> None:
    """All of these are installed, or an error that says how they would be."""
    for name in names:
        if not installed(name):
            raise ModuleNotFoundError(f"bench: {name} is not installed; run: {KNOWN[name]}")


def library(module: str) -> Any:
    """A module of a peer, untyped: none of them may be installed where types are checked."""
    return importlib.import_module(module)


def variants(name: str) -> Sequence[Variant]:
    """The ways in which a library is run."""
    found: Sequence[Variant] = importlib.import_module(f"bitspike.bench.peers.{name}").VARIANTS
    return found
