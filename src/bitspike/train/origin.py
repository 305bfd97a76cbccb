"""Digests of the settings and samples that a run is made of; its files keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """Digests of the settings and samples that a run is made of.

    `samples` are the digests of the "train" and "test" samples; `where(split)` names them and their file.
    `settings` are the digests of the whole "experiment" and of the "network" alone, and the kind of "samples" where
    these are passed from Python; "data" is JSON on the input and the classes (experiments/data_facts.py).
    `identity_before` is the identity as checkpoints without `samples` know it.
    `own_files` says that the identity tells the user's files apart. `another_folder` is what an
    error says to a person whose folder holds another run.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    samples: Mapping[str, str] = field(default_factory=dict)
    where: Callable[[str], str] = lambda split: f"the {split} samples"
    identity_before: str = ""
    own_files: bool = False
    another_folder: str = "choose another --out"

    def changed(self, saved: Any) -> str:
        """Return words that name the samples unlike the saved ones; empty if there are none."""
        known = saved if isinstance(saved, dict) else {}
        other = [self.where(split) for split, digest in self.samples.items() if known.get(split) != digest]
        return " and ".join(other)
