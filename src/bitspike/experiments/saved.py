"""A run that was made: its best network, and what that does on a split of its data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import Setting, Split, build_network, choose_task, splits
from bitspike.experiments.provenance import versions
from bitspike.experiments.schema import Experiment, read_experiment
from bitspike.nn import SpikingNetwork
from bitspike.train.checkpoint import chosen_accuracy, input_shape, load_weights
from bitspike.train.evaluation import Evaluation, evaluate, evaluation_batch
from bitspike.train.numerics import cast, dtype_of, reproducible
from bitspike.train.run_folder import RunFolder, trial_folders


def trials_of(path: Path) -> list[Path]:
    """The runs in a folder of trials, in their order."""
    runs = [run for run in trial_folders(path) if is_run(run)]
    if not runs:
        raise FileNotFoundError(f"{path} holds no run: there is no experiment.toml in it, nor in trial-*")
    return runs


def is_run(path: Path) -> bool:
    """A run, not a folder of trials."""
    return RunFolder(path).experiment.is_file()


def best_trial(path: Path) -> Path:
    """The run itself, or of a folder of trials the one that was chosen by the best accuracy."""
    if is_run(path):
        return path
    able = [run for run in trials_of(path) if RunFolder(run).best.is_file()]
    if not able:
        raise FileNotFoundError(f"{path} holds no trial that has finished its first epoch")
    return max(able, key=lambda run: chosen_accuracy(RunFolder(run).best))


def load_run(path: str | Path, *, device: str | torch.device = "cpu") -> SpikingNetwork:
    """The best network of a run (of trials: of the best), in evaluation mode, with its thresholds; no data is read."""
    run = best_trial(Path(path))
    spec = read_experiment(run / "experiment.toml")
    weights = RunFolder(run).best
    net = build_network(spec, input_shape(weights)).to(dtype_of(spec.train.precision))
    load_weights(weights, net)
    return net.to(device).eval()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What `bitspike evaluate` prints."""

    run: Path
    spec: Experiment
    data: Dataset
    network: SpikingNetwork
    split: Split
    result: Evaluation

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "run": str(self.run),
            "experiment": self.spec.name,
            "data": self.data.title,
            "edition": self.data.edition,
            "split": self.split,
            "steps": self.network.steps,
            **asdict(self.result),
            "versions": versions(),
        }


def evaluate_run(path: Path, split: Split, setting: Setting, *, steps: int | None = None) -> Evaluated:
    """The best network of a run on one split of its data; `steps`: static inputs are shown for longer or shorter."""
    run = best_trial(path)
    spec = read_experiment(run / "experiment.toml")
    data = open_dataset(spec.data, root=setting.data_root, progress=setting.progress, seed=spec.seed)
    parts = splits(spec, data)
    if split not in parts:
        raise ValueError(
            f"evaluate: the run was made with protocol 'paper', which has no {split!r} split; use test or train"
        )
    net = load_run(run, device=setting.device)
    samples = parts[split].to(setting.device)
    if steps is not None:
        if samples.steps is not None:
            raise ValueError(f"evaluate: --steps is for static inputs, but samples of {data.title} have their own time")
        net.steps = steps
    batch = evaluation_batch(spec.train.evaluate_batch, samples)
    tick = setting.progress(f"{data.title}, {split}", -(-len(samples) // batch))
    with reproducible(spec.train.precision), cast(spec.train.precision, setting.device):
        result = evaluate(net, samples, choose_task(spec, len(net.layers)), batch=batch, on_batch=tick)
    return Evaluated(run, spec, data, net, split, result)
