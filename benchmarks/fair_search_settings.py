"""The variants of fair_search.py, how far their searches are, and their best settings."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitspike.experiments.sweep.overview import Overview, overview
from bitspike.experiments.sweep.studies import FILE, open_study
from bitspike.train.run_folder import RunFolder

MOVING = "net.surrogate_center=current"
VARIANTS = {  # title, preset, settings; a setting with {layer} is one for each layer of neurons
    "theta1": ("theta = 1", "theta1", ()),
    "fixed": ("fixed theta", "fixed", ()),
    "annealed": ("annealed, clamped", "annealed", ()),
    "moving": ("annealed, moving", "annealed", (MOVING,)),
    # a control: thresholds of the annealed space that are at their end after the first iteration
    "layers": ("fixed theta by layer", "annealed", (MOVING, "net.theta.{layer}.rate=1")),
}
ASKED = ("theta1", "fixed", "annealed", "moving")  # those of the paper's question
LAYERS = {"fashion": 3, "shd": 2}
EPOCHS = {"fashion": 3, "shd": 5}  # of a trial; rates are stretched later, so that slow thresholds are searched, too
ITERATIONS = {"fashion": 422, "shd": 219}  # an epoch, without the validation samples
CLASSES = {"fashion": 10, "shd": 20}


@dataclass(frozen=True, slots=True)
class Setting:
    """One of a variant's best trials, the best has rank 0: its experiment file and its long trainings."""

    variant: str
    rank: int
    trial: int
    found: float
    epochs: int  # of a long training
    out: Path

    @property
    def folder(self) -> Path:
        """The folder of its long trainings; its name does not change when the ranking does."""
        return self.out / "long" / f"{self.variant}-trial{self.trial}-{self.epochs}"

    @property
    def file(self) -> Path:
        """Its experiment file."""
        return self.folder.with_suffix(".toml")

    def ended(self, seeds: int) -> dict[int, dict[str, Any]]:
        """Return the summaries of its long trainings that have ended, by their seeds."""
        found = ((seed, RunFolder(self.folder / f"trial-{seed}").read_summary()) for seed in range(seeds))
        return {seed: summary for seed, summary in found if summary is not None}


def settings_of(task: str, variant: str) -> list[str]:
    """Return a variant's own settings for the layers of a task's network."""
    settings = VARIANTS[variant][2]
    return [
        setting.format(layer=layer)
        for setting in settings
        for layer in range(LAYERS[task] if "{layer}" in setting else 1)
    ]


def studies(given: argparse.Namespace, variants: Iterable[str]) -> dict[str, Overview]:
    """Return what the searches of the variants have found so far, without those that have not begun."""
    folders = {variant: given.out / variant for variant in variants}
    return {variant: overview(open_study(folder)) for variant, folder in folders.items() if (folder / FILE).is_file()}


def best_settings(given: argparse.Namespace, variant: str, found: Overview) -> list[Setting]:
    """Return the settings of a variant's best trials, the best first; of its first `given.trials` trials."""
    complete = [each for each in found.outcomes if each.state == "complete"][: given.trials]
    ranked = sorted((-each.values[0], each.number) for each in complete if each.values)
    return [
        Setting(variant, rank, number, -value, given.long, given.out)
        for rank, (value, number) in enumerate(ranked[: given.best])
    ]


def unsearched(given: argparse.Namespace, found: dict[str, Overview]) -> list[str]:
    """Return words on each variant that was asked for and whose search is not finished."""
    ended = {variant: found[variant].standing.complete if variant in found else 0 for variant in given.only}
    return [
        f"{variant} has {count} of {given.trials} trials" for variant, count in ended.items() if count < given.trials
    ]
