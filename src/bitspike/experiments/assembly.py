"""From an experiment to its parts: device, network, task, splits; and what makes two experiments alike."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from bitspike.data.datasets import Progress
from bitspike.data.samples import Dataset, Images, Samples
from bitspike.data.splits import held_out
from bitspike.experiments.schema import Experiment, as_values
from bitspike.nn import BinaryLinear, SpikingNetwork, build
from bitspike.train.progress import Listener
from bitspike.train.seeds import mixed
from bitspike.train.tasks import CountTask, CrossEntropyTask, DistillTask, Task, TraceTask

Split = Literal["train", "valid", "test"]

# What may differ when a run goes on: it decides how long and how visibly, not which numbers.
FREE = (
    "train.epochs",
    "train.patience",
    "train.checkpoint_minutes",
    "train.tensorboard",
    "train.watch_every",
    "train.evaluate_batch",
)


def _quiet(stage: str, steps: int) -> Callable[[], None]:
    return lambda: None


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a run is made; nothing here changes its numbers but the device."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    resume: bool = False
    graph: Literal["auto", "off"] = "auto"  # whether iterations are replayed from a CUDA graph
    command: str = "bitspike.experiments.runs"
    data_root: Path | None = None
    listener: Listener = field(default_factory=Listener)
    progress: Progress = _quiet
    started: Callable[[Experiment, Dataset, SpikingNetwork, Path], object] = lambda spec, data, net, out: None


def choose_device(name: str) -> torch.device:
    """ "auto" takes a GPU where there is one; under torchrun each process its own."""
    gpu = torch.cuda.is_available()
    if name == "auto":
        name = "cuda" if gpu else "cpu"
    if name == "cuda" and not gpu:
        raise ValueError("--device cuda: PyTorch sees no GPU here; use --device cpu, or install a CUDA build of torch")
    if name == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        return device
    return torch.device(name)


def build_network(spec: Experiment, input_shape: tuple[int, ...]) -> SpikingNetwork:
    """The experiment's network; a notation that does not fit the input names the token and the size that would."""
    net = spec.net
    return build(
        net.notation,
        input_shape,
        beta=net.beta,
        slope=net.slope,
        binary=net.binary,
        clip=net.clip,
        norm=None if net.norm == "none" else net.norm,
        dropout=net.dropout,
        surrogate=net.surrogate,
        surrogate_center=net.surrogate_center,
        learn_beta=net.learn_beta,
        recurrent=net.recurrent,
        steps=net.steps,
        glances=net.glances,
        init=net.init,
        generator=torch.Generator().manual_seed(mixed(spec.seed, "weights")),
        backend=net.backend,
        recompute=net.recompute,
    )


def check_fit(spec: Experiment, net: SpikingNetwork, data: Dataset) -> None:
    """The network's outputs, thresholds and loss against the data, before anything trains."""
    spec.net.schedules(len(net.layers))
    right = ("trace",) if spec.data.name == "coding" else ("count", "cross_entropy")
    if spec.train.loss not in right:
        wanted = " or ".join(map(repr, right))
        raise ValueError(f"train.loss must be {wanted} on {data.title}, but is {spec.train.loss!r}")
    jitter = [key for key in ("shift", "mirror", "contrast") if getattr(spec.train, key)]
    if jitter and not isinstance(data.train, Images):
        raise ValueError(f"train.{jitter[0]} belongs to images, but {data.title} holds none; leave it out")
    if spec.net.glances > 1 and not isinstance(data.train, Images):
        raise ValueError(f"net.glances belongs to images, but {data.title} holds none; set it to 1")
    if spec.train.latent_clip is not None and not spec.net.binary:
        raise ValueError("train.latent_clip bounds latent weights, but net.binary = false has none; set it to none")
    if spec.train.harden and not (spec.net.binary and isinstance(data.train, Images)):
        raise ValueError(
            "train.harden is for a first layer of binary weights on images (net.binary = true); set it to 0"
        )
    if spec.train.recalibrate and spec.net.norm == "none":
        raise ValueError("train.recalibrate measures batch norm's statistics, but net.norm is 'none'; set it to 0")
    outputs = outputs_of(net)
    if outputs < data.classes:
        have = f"has {outputs} outputs" if outputs else "does not end in a Dense layer"
        raise ValueError(
            f"net.notation {net.notation!r} {have}, but {data.title} has {data.classes} classes; {data.label_advice()}"
        )


def outputs_of(net: SpikingNetwork) -> int:
    """Neurons of the last layer, if that is a Dense one; else 0."""
    last = net.layers[-1].synapse
    return last.out_features if isinstance(last, BinaryLinear) else 0


def choose_task(spec: Experiment, layers: int, targets: Tensor | None = None) -> Task:
    """Firing most, or firing in time; with `targets`, a teacher's probabilities for the training samples, as that."""
    train = spec.train
    if train.loss == "count":
        return CountTask(train.correct, train.incorrect)
    if train.loss == "cross_entropy":
        plain = CrossEntropyTask(train.logit_scale, train.label_smoothing)
        return plain if targets is None else DistillTask(plain, targets, train.teacher_weight, train.temperature)
    return TraceTask(spec.net.schedules(layers)[-1].final, train.over_time)


def splits(spec: Experiment, data: Dataset) -> dict[Split, Samples]:
    """`paper` trains on all training samples; `holdout` keeps some of each class to choose the model by."""
    rows, held = training_rows(spec, data)
    if held is None:
        return {"train": data.train, "test": data.test}
    return {"train": data.train.select(rows), "valid": data.train.select(held), "test": data.test}


def training_rows(spec: Experiment, data: Dataset) -> tuple[Tensor, Tensor | None]:
    """Which of the data's training samples train, and which are held out, if the protocol holds some."""
    if spec.train.protocol == "paper":
        return torch.arange(len(data.train)), None
    if spec.data.validation_share == 0:
        raise ValueError(
            "data.validation_share is 0, but train.protocol = 'holdout' judges epochs by these samples; give it a "
            "share, or set train.protocol to 'paper'"
        )
    kept, held = held_out(data.train.labels, spec.data.validation_share, spec.data.split_seed)
    if not len(held):
        raise ValueError(
            f"train.protocol = 'holdout' needs two training samples of a class to hold one out, but {data.title} has "
            f"{len(data.train)} in all; use train.protocol = 'paper'"
        )
    return kept, held


def free_fields(spec: Experiment) -> tuple[str, ...]:
    """What may differ when the run goes on; epochs only where they decide neither learning rates nor hardness."""
    return tuple(key for key in FREE if key != "train.epochs" or not _ends_with(spec))


def _ends_with(spec: Experiment) -> str:
    """What of the experiment is stretched over all epochs, if something is."""
    return "train.schedule = 'decay'" if spec.train.schedule == "decay" else "train.harden" if spec.train.harden else ""


def identity(spec: Experiment, data: Dataset, teacher: str | None = None) -> str:
    """A digest of all that decides the numbers; `teacher` is that of the teacher's weights, wherever they lie.

    Without what is left at its default, so that a field added later does not part a run from its checkpoint.
    """
    values: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for key in (*free_fields(spec), "name", "title", "paper", "sources"):
        table, _, name = key.rpartition(".")
        (values[table] if table else values).pop(name, None)
    if spec.train.teacher is not None:
        if teacher is None:
            raise ValueError(f"identity: train.teacher is {spec.train.teacher}; give the digest of its weights")
        values["train"]["teacher"] = teacher
    text = json.dumps([values, data.edition], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(a: Experiment, b: Experiment, free: Sequence[str] | None = None) -> list[str]:
    """The fields in which two experiments give other numbers; those in `free` may differ, or those free in a.

    Two teachers are not told apart by where they lie: `identity` knows them by their weights.
    """

    def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        return found

    first, second = (
        flat({k: v for k, v in as_values(x).items() if k not in ("sources", "paper", "title", "name")}) for x in (a, b)
    )
    may_differ = free_fields(a) if free is None else free
    return [
        f"{key} was {first.get(key)!r}, is {second.get(key)!r}{_why(a, key)}"
        for key in sorted(first.keys() | second.keys())
        if key not in may_differ and first.get(key) != second.get(key)
        if key != "train.teacher" or None in (a.train.teacher, b.train.teacher)
    ]


def _why(spec: Experiment, key: str) -> str:
    """What makes a field count that is free otherwise."""
    return f" ({_ends_with(spec)} ends with it)" if key == "train.epochs" and _ends_with(spec) else ""
