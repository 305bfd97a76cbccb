"""benchmarks/fair_search.py with commands that are played: studies by a formula, long trainings with given results."""

from __future__ import annotations

import functools
import itertools
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bitspike.experiments.presets import preset
from bitspike.experiments.schema import as_toml
from helpers import studies

VARIANTS = ["theta1", "fixed", "annealed", "moving"]


@functools.cache
def _study(preset: str, trials: int) -> dict[str, bytes]:
    """The files of a study; the first trials are the same, however many there are."""
    with tempfile.TemporaryDirectory() as made:
        folder = studies.study_folder(Path(made, "study"), source=f"fashion/{preset}", trials=trials)
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


class Played:
    """Plays the commands of bitspike: studies by a formula, and long trainings with given results."""

    def __init__(self, script: Any, out: Path) -> None:
        self.script, self.out = script, out
        self.commands: list[list[str]] = []
        self.results: dict[str, dict[int, tuple[float | None, float | None]]] = {}  # validation and test, by seed
        self.during: Callable[[str], object] = lambda setting: None  # called in a long training

    def main(self, *arguments: str, task: str = "fashion") -> int:
        return self.script.main([task, "--out", str(self.out), *arguments])

    def run(self, commands: Any, *words: str, out: Path | None = None, good: Any = ()) -> None:
        commands._require_time()
        self.commands.append(list(words))
        value = dict(itertools.pairwise(words))
        if words[:2] == ("sweep", "run") and not Path(value["--out"]).exists():
            self.search(Path(value["--out"]).name, int(value["--trials"]))
        elif words[:2] == ("sweep", "best"):
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(as_toml(preset("fashion/fixed"), "played"))
        elif words[0] == "train":
            self.during(Path(words[1]).stem)
            self.train(Path(value["--out"]), int(value["--trials"]))

    def search(self, variant: str, trials: int = 3) -> None:
        (self.out / variant).mkdir(parents=True)
        for name, held in _study("annealed" if variant in ("moving", "layers") else variant, trials).items():
            (self.out / variant / name).write_bytes(held)

    def train(self, folder: Path, seeds: int) -> None:
        for seed, (valid, test) in self.results.get(folder.name, dict.fromkeys(range(seeds), (0.8, 0.7))).items():
            run = folder / f"trial-{seed}"
            run.mkdir(parents=True, exist_ok=True)
            (run / "experiment.toml").touch()
            (run / "last.ckpt").touch()
            ended = "nan" if valid is None else "epochs"
            summary = {"ended": ended, "epochs": 4, "valid_accuracy": valid, "accuracy": test, "best_epoch": 4}
            (run / "summary.json").write_text(json.dumps(summary))

    def ranking(self, variant: str, best: int = 99, trials: int = 99) -> list[int]:
        """The trials of a variant, the best first."""
        settings = sys.modules["fair_search_settings"]
        given = SimpleNamespace(out=self.out, trials=trials, best=best, long=110)
        found = settings.studies(given, [variant])[variant]
        return [each.trial for each in settings.best_settings(given, variant, found)]

    def trained(self) -> list[str]:
        """The settings that were trained since this was asked for the last time."""
        found = [Path(words[1]).stem for words in self.commands if words[0] == "train"]
        self.commands.clear()
        return found

    def report(self) -> dict[str, Any]:
        return json.loads((self.out / "fair-search.json").read_text())["variants"]
