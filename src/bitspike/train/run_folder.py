"""A run's folder: experiment.toml, metrics.jsonl, summary.json, best.safetensors, last.ckpt, TensorBoard events."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitspike._lazy import not_installed
from bitspike.files import explained, write_text

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Row = dict[str, Any]

# The fields of a summary that may differ between two runs with the same results.
_CIRCUMSTANCES = (
    *("command", "versions", "device", "processes", "graph", "together", "together_since"),
    *("seconds", "test_seconds", "peak_memory_mb"),
)
_SEAL = "results_sha256"


def sealed(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary with a digest of its results, which reveals later changes."""
    return {**summary, _SEAL: _results_digest(summary)}


def _results_digest(summary: Mapping[str, Any]) -> str:
    results = {key: value for key, value in summary.items() if key not in (*_CIRCUMSTANCES, _SEAL)}
    return hashlib.sha256(json.dumps(results, sort_keys=True).encode()).hexdigest()


class RunFolder:
    """The paths of a run's files, and how its small ones are read and written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.experiment = path / "experiment.toml"
        self.metrics = path / "metrics.jsonl"
        self.summary = path / "summary.json"
        self.best = path / "best.safetensors"
        self.last = path / "last.ckpt"
        self.curves = path / "curves.png"  # where matplotlib is installed
        self.baselines = path / "baselines.json"  # where they were asked for
        self.lock = path / ".lock"  # held while a process trains here

    def partial(self) -> list[Path]:
        """Return the files that killed writes left behind: see `write_atomically`."""
        files = (self.experiment, self.metrics, self.summary, self.best, self.last, self.curves, self.baselines)
        return [path for file in files for path in self.path.glob(f".{file.stem}-*{file.suffix}")]

    def checkpoints(self) -> list[Path]:
        """Return last.ckpt, if it is there, and what killed writes of it left behind."""
        kept = [self.last] if self.last.is_file() else []
        return [*kept, *self.path.glob(f".{self.last.stem}-*{self.last.suffix}")]

    def discard_checkpoint(self) -> None:
        """Delete last.ckpt, and what killed writes of it left behind: the run can no longer go on."""
        for path in self.checkpoints():
            path.unlink(missing_ok=True)

    def events(self) -> list[Path]:
        """Return TensorBoard's files."""
        return list(self.path.glob("events.out.tfevents.*"))

    def rewrite_metrics(self, rows: Sequence[Row]) -> None:
        """Write the rows that a resumed run starts from, without those after its checkpoint, which it makes again."""
        write_text(self.metrics, "".join(json.dumps(row) + "\n" for row in rows))

    def add_metrics(self, row: Row) -> None:
        """Append one line to metrics.jsonl; a reader at the same time sees all lines before it."""
        with explained(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json: the run is complete."""
        write_text(self.summary, json.dumps(summary, indent=2) + "\n")

    def read_summary(self, *, sealed: bool = False) -> dict[str, Any] | None:
        """Return a complete run's summary, None while it is not complete; with `sealed`, refuse changed results."""
        if not self.summary.is_file():
            return None
        try:
            summary: dict[str, Any] = json.loads(self.summary.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.summary} is not valid JSON: {error}") from None
        remedy = "without it --resume makes it again"
        if not isinstance(summary, dict) or not {"ended", "epochs"} <= summary.keys():
            raise ValueError(f"{self.summary} is not the summary of a run; {remedy}")
        if not isinstance(summary["ended"], str) or type(summary["epochs"]) is not int:
            raise ValueError(f"{self.summary} does not say how the run ended, and after how many epochs; {remedy}")
        # one of an earlier version has no digest
        if sealed and summary.get(_SEAL, digest := _results_digest(summary)) != digest:
            raise ValueError(f"{self.summary} was changed or is damaged: its {_SEAL} is another; {remedy}")
        return summary


class Board:
    """TensorBoard events of a run, one point an epoch; `step` is where a resumed run goes on.

    `layers` names the layers that fire. Rows may hold the figures of one more, a last layer that is read by its
    membrane: it has no threshold and no spikes, and is left out.
    """

    def __init__(self, folder: Path, step: int, layers: Sequence[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise not_installed(
                "tensorboard",
                "TensorBoard events need tensorboard",
                otherwise="or go without: --set train.tensorboard=false",
            ) from None
        self.folder, self.layers = folder, layers
        self.writer: SummaryWriter = SummaryWriter(str(folder), purge_step=step or None)

    def add(self, row: Row) -> None:
        """Add the figures of one epoch, at its iteration."""
        with explained(self.folder):
            self._add(row)

    def _add(self, row: Row) -> None:
        step, now = row["step"], time.time()
        for key in ("train_loss", "train_accuracy", "valid_loss", "valid_accuracy", "test_loss", "test_accuracy", "lr"):
            if key in row:
                self.writer.add_scalar(key.replace("_", "/"), row[key], step, now)
        for key in ("theta", "dead", "spikes"):
            for layer, value in zip(self.layers, row[key], strict=False):
                self.writer.add_scalar(f"{key}/{layer}", value, step, now)
        self.writer.flush()

    def close(self) -> None:
        """Write out what is left."""
        with explained(self.folder):
            self.writer.close()


def trial_folders(path: Path) -> list[Path]:
    """Return `trial-0`, `trial-1`, ... in a folder of trials, as far as they are there, in their order."""
    numbers = {each: each.name.removeprefix("trial-") for each in path.glob("trial-*")}
    return sorted((each for each, number in numbers.items() if number.isdecimal()), key=lambda each: int(numbers[each]))
