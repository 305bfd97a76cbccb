"""Saved runs: load the best network of a run, and evaluate it on a split of the run's data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from bitspike.analysis.baselines import Baselines
from bitspike.analysis.classification import Classification, classify
from bitspike.data.catalog import labels_are_times
from bitspike.data.samples import Dataset, Samples
from bitspike.data.toml import read_toml
from bitspike.experiments.assembly import (
    RunOptions,
    build_network,
    iteration_work,
    make_task,
    outputs_of,
    synapse_shapes,
)
from bitspike.experiments.beside import run_baselines
from bitspike.experiments.comparison import network_digest, samples_digests, samples_in_words, settings_digest
from bitspike.experiments.held_out import Split, splits
from bitspike.experiments.provenance import versions
from bitspike.experiments.removed import uses_removed
from bitspike.experiments.run_data import dataset_of, kind_of
from bitspike.experiments.schema import Experiment, read_run_experiment
from bitspike.nn import SpikingNetwork
from bitspike.ops import LIFOutput
from bitspike.train.checkpoint import load_weights, require_shapes, weights_info
from bitspike.train.evaluation import Evaluation, evaluate, evaluation_batch
from bitspike.train.numerics import cast, dtype_of, reproducible, threads_for
from bitspike.train.run_folder import RunFolder, trial_folders
from bitspike.train.tasks import CrossEntropyTask, Task

RECURRENCE = ", or train again: an earlier version's recurrent weights behind batch norm had another scale"


def trials_of(path: Path) -> list[Path]:
    """Return the runs in a folder of trials, in their order."""
    runs = [run for run in trial_folders(path) if is_run(run)]
    if not runs:
        raise FileNotFoundError(f"{path} holds no run: there is no experiment.toml in it, nor in trial-*")
    return runs


def is_run(path: Path) -> bool:
    """Return whether the folder holds a run; a folder of trials does not."""
    return RunFolder(path).experiment.is_file()


def best_trial(path: Path) -> Path:
    """Return the run in a folder: the folder itself, or the trial in it with the best accuracy."""
    if is_run(path):
        return path
    able = [run for run in trials_of(path) if RunFolder(run).best.is_file()]
    if not able:
        raise FileNotFoundError(f"{path} holds no trial that has finished its first epoch")
    return max(able, key=lambda run: weights_info(RunFolder(run).best).accuracy)


def load_run(path: str | Path, *, device: str | torch.device = "cpu") -> SpikingNetwork:
    """Return the best network of a run, or of the best of its trials, in evaluation mode; no data is read.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.load_run("results/best/mnist")  # a folder of the repository
        >>> net(torch.rand(2, 1, 28, 28)).spikes.shape
        torch.Size([50, 2, 10])
    """
    run = best_trial(Path(path))
    return load_network(run, made_with(run), torch.device(device))


def made_with(run: Path) -> Experiment:
    """Return the experiment of a run that was made; what only training used may have been removed since."""
    return read_run_experiment(run / "experiment.toml", drop_removed=True)


def load_network(run: Path, spec: Experiment, device: torch.device) -> SpikingNetwork:
    """Return the network of a run; allocate its weights only after the file is known to hold them."""
    weights = RunFolder(run).best
    info = weights_info(weights)
    try:
        shapes = synapse_shapes(spec, info.input_shape)
    except ValueError as error:
        raise ValueError(f"{run / 'experiment.toml'}: {error}") from None
    require_shapes(weights, shapes, whole=False)
    if info.recorded("settings", "network") not in (None, network_digest(spec)):
        raise ValueError(
            f"{run / 'experiment.toml'} is not what {weights.name} was trained with: another [net] or train.precision; "
            "put the right file back"
            + (RECURRENCE if spec.net.recurrent and spec.net.binary and spec.net.dense_norm else "")
        )
    net = build_network(spec, info.input_shape).to(dtype_of(spec.train.precision))
    load_weights(weights, net)
    return net.to(device).eval()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of evaluating a run: all that `bitspike evaluate` prints."""

    run: Path
    spec: Experiment
    data: Dataset
    network: SpikingNetwork
    split: Split
    steps: int  # of a sample
    result: Evaluation
    classification: Classification | None  # None where a label is a time
    baselines: Baselines | None  # None unless they were asked for
    warnings: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for `--json`."""
        return {
            "run": str(self.run),
            "experiment": self.spec.name,
            "data": self.data.title,
            "edition": self.data.edition,
            "split": self.split,
            "steps": self.steps,
            **asdict(self.result),
            **({} if self.classification is None else self.classification.as_json()),
            "baselines": None if self.baselines is None else asdict(self.baselines),
            "warnings": self.warnings,
            "versions": versions(),
        }


def evaluate_run(
    path: Path, split: Split, options: RunOptions, *, steps: int | None = None, baselines: bool = False
) -> Evaluated:
    """Evaluate the best network of a run on one split of its data.

    `steps` is how long static inputs are shown, if not as long as in training. `baselines` asks for those of the split,
    learnt from the run's training samples.
    """
    if split not in (known := get_args(Split)):
        raise ValueError(f"evaluate: split must be {', '.join(known[:-1])} or {known[-1]}, but is {split!r}")
    run = best_trial(path)
    spec = made_with(run)
    net = load_network(run, spec, options.device)
    data = dataset_of(spec, options)
    recorded = partial(weights_info(RunFolder(run).best).recorded, "settings")
    _require_fit(data, net, recorded("samples"))
    _require_labels(data, recorded("labels"))
    parts = splits(spec, data)
    if split not in parts:
        raise ValueError(
            f"evaluate: the run was made with protocol 'paper', which has no {split!r} split; use test or train"
        )
    samples = parts[split].to(options.device)
    if steps is not None:
        if samples.steps is not None:
            raise ValueError(f"evaluate: --steps is for static inputs, but samples of {data.title} have their own time")
        net.steps = steps
    batch = evaluation_batch(spec.train.evaluate_batch, samples)
    tick = options.progress(f"{data.title}, {split}", -(-len(samples) // batch))
    precision = spec.train.precision
    task = make_task(spec, net, parts["train"].labels.to(options.device))
    scores: list[Tensor] = []
    with reproducible(precision), cast(precision, options.device), threads_for(iteration_work(spec, data)):
        result = evaluate(
            net, samples, task, batch=batch, on_batch=tick, on_output=lambda out: scores.append(_scores(net, out))
        )
    return Evaluated(
        run,
        spec,
        data,
        net,
        split,
        samples.steps or net.steps,
        result,
        None if labels_are_times(spec.data.name) else _classified(net, task, data, samples, torch.cat(scores)),
        run_baselines(spec, parts["train"], parts[split], options) if baselines else None,
        _changes(run, spec, data, split, options),
    )


def _require_fit(data: Dataset, net: SpikingNetwork, kind: str | None) -> None:
    """Raise unless the samples have the kind (None: not known), the shape and the classes of the run's network."""
    if kind not in (None, here := kind_of(data.train)):
        raise ValueError(
            f"evaluate: samples of {data.title} are {here}, but the run's network was trained on {kind}; take samples "
            "like those of its training"
        )
    if data.shape != net.input_shape:
        raise ValueError(
            f"evaluate: samples of {data.title} have the shape {data.shape}, but the run's network was trained on "
            f"{net.input_shape}; take samples like those of its training"
        )
    if data.classes > outputs_of(net):
        raise ValueError(
            f"evaluate: {data.title} has {data.classes} classes, but the run's network has {outputs_of(net)} outputs"
        )


def _require_labels(data: Dataset, recorded: str | None) -> None:
    """Raise if the labels of samples passed from Python are not those of training: classes are numbered by them."""
    if recorded is None or json.loads(recorded) == list(data.file_labels):
        return
    here, there = (", ".join(labels) for labels in (data.file_labels, json.loads(recorded)))
    raise ValueError(
        f"evaluate: samples of {data.title} have the labels {here}, but those of training {there}; classes are "
        "numbered by them, so pass samples of all of these classes"
    )


def _scores(net: SpikingNetwork, output: LIFOutput) -> Tensor:
    return net.output_scores(output).flatten(1).float().cpu()


def _classified(net: SpikingNetwork, task: Task, data: Dataset, samples: Samples, scores: Tensor) -> Classification:
    """Return the figures of the network's answers; only cross entropy takes its scores as logits."""
    scale = task.scale if isinstance(task, CrossEntropyTask) else None
    return classify(
        scores,
        samples.labels,
        data.class_names,
        silence=net.readout == "spikes",
        scale=scale,
        file_labels=data.file_labels,
    )


def _changes(run: Path, spec: Experiment, data: Dataset, split: Split, options: RunOptions) -> list[str]:
    """Return a warning if samples or settings differ from those of the run, as far as its files tell."""
    part = split if split != "valid" or data.valid is not None else "train"
    info = weights_info(RunFolder(run).best)
    same = info.recorded("settings", "experiment") in (None, settings_digest(spec))
    if not same and not uses_removed(read_toml(run / "experiment.toml")):
        return [f"{run / 'experiment.toml'} was changed since the run was made: this may not be its accuracy"]
    if info.recorded("samples", part) not in (None, samples_digests(spec, data)[part]):
        words = samples_in_words(spec, part, options.data_root)
        if spec.data.file is not None and data.edition == _edition_of(run):
            return [
                f"{words} come from the same files as the run's, but an earlier version numbered labels or drew limits "
                "otherwise: this is not the run's accuracy; train again"
            ]
        return [
            f"{words} were changed since the run was made (values, labels or order): this is not the accuracy on its "
            "own data"
        ]
    return []


def _edition_of(run: Path) -> str | None:
    """Return the edition of the data that a run was made on; None where its summary does not tell."""
    try:
        return (RunFolder(run).read_summary() or {}).get("edition")
    except ValueError:  # a damaged summary is no reason to refuse an evaluation
        return None
