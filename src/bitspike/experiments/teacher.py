"""What teaches a run: another, several trials, or a table that anything may have written. Found, checked against what
it is to teach, and asked about every training sample."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bitspike.data.event_files import read_probability_file
from bitspike.data.samples import Dataset, Samples
from bitspike.experiments.assembly import Setting, outputs_of, training_rows
from bitspike.experiments.saved import is_run, load_run, trials_of
from bitspike.experiments.schema import Experiment, read_experiment
from bitspike.files import digest
from bitspike.nn import SpikingNetwork
from bitspike.train.distill import soft_targets, tempered
from bitspike.train.evaluation import evaluation_batch
from bitspike.train.numerics import cast, dtype_of, reproducible
from bitspike.train.run_folder import RunFolder
from bitspike.train.tasks import CrossEntropyTask
from bitspike.train.world import World


@dataclass(frozen=True, slots=True)
class Teacher:
    """A run whose best network teaches; `digest` is that of its weights."""

    run: Path
    spec: Experiment
    digest: str

    @property
    def scale(self) -> float:
        """From spike rates to logits: as it was trained, or 10 where its loss knew no logits."""
        train = self.spec.train
        return train.logit_scale if train.loss == "cross_entropy" else CrossEntropyTask().scale


@dataclass(frozen=True, slots=True)
class Teachers:
    """The runs that teach, one or more; `place` is what `train.teacher` names."""

    place: Path
    each: tuple[Teacher, ...]

    @property
    def digest(self) -> str:
        """Of all their weights, whatever their order; a single teacher's is its file's."""
        digests = sorted(teacher.digest for teacher in self.each)
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """For the summary; accuracies are those of each on its test set, if its run is complete."""
        specs = [teacher.spec for teacher in self.each]
        summaries = [RunFolder(teacher.run).read_summary() or {} for teacher in self.each]
        return {
            "run": str(self.place),
            "networks": len(specs),
            "experiment": " ".join(dict.fromkeys(spec.name for spec in specs)),
            "protocol": " ".join(dict.fromkeys(spec.train.protocol for spec in specs)),
            "accuracies": [summary.get("accuracy") for summary in summaries],
        }


@dataclass(frozen=True, slots=True)
class Table:
    """An npz or HDF5 file with `probabilities [N, C]` and `labels [N]` of the data's training samples, in its order."""

    place: Path
    digest: str

    def as_json(self) -> dict[str, Any]:
        """For the summary."""
        return {"file": str(self.place)}


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What is taught: `targets [N, C]`, probabilities for the training samples, in the student's dtype."""

    teachers: Teachers | Table
    targets: Tensor
    train_accuracy: float  # of the targets, on the samples that they teach

    def as_json(self) -> dict[str, Any]:
        """Who taught, for the summary."""
        return {
            **self.teachers.as_json(),
            "train_accuracy": self.train_accuracy,
            "digest": self.teachers.digest,
        }


def find_teachers(spec: Experiment) -> Teachers | Table | None:
    """What `train.teacher` names, if it names something: a run, a folder of trials, or a file."""
    given = spec.train.teacher
    if given is None:
        return None
    if given.is_file():
        return Table(given, digest(given))
    try:
        runs = [given] if is_run(given) else trials_of(given)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"train.teacher: {given} holds no run (any more) and is no file; if it was moved, say where it is: "
            "--set train.teacher=RUN"
        ) from None
    for run in runs if len(runs) > 1 else ():
        if not RunFolder(run).summary.is_file():
            raise ValueError(
                f"train.teacher: {given} holds trials, but {run.name} is not complete; finish it, or name one run"
            )
    return Teachers(given, tuple(_teacher(run) for run in runs))


def _teacher(run: Path) -> Teacher:
    weights = RunFolder(run).best
    if not weights.is_file():
        raise FileNotFoundError(f"train.teacher: {weights} does not exist; has the run finished its first epoch?")
    return Teacher(run, read_experiment(run / "experiment.toml"), digest(weights))


def take_lesson(
    spec: Experiment, net: SpikingNetwork, data: Dataset, samples: Samples, setting: Setting, world: World
) -> Lesson | None:
    """Ask the teachers, if there are any, about `samples`, those that train `net`; then they are not needed."""
    teachers = find_teachers(spec)
    if teachers is None:
        return None
    if isinstance(teachers, Table):
        table, who = _look_up(teachers, spec, net, data).to(samples.labels.device), "teacher"
    else:
        in_order = sorted(teachers.each, key=lambda teacher: teacher.digest)  # whatever their names: a sum rounds
        tables = [_ask(teacher, spec, net, data, samples, setting, world) for teacher in in_order]
        table, who = torch.stack(tables).mean(0), "teacher" if len(tables) == 1 else f"{len(tables)} teachers"
    right = (table.argmax(1) == samples.labels).double().mean().item()
    setting.listener.note(f"{who} {teachers.place}: {right:.2%} of the training samples right")
    return Lesson(teachers, table.to(dtype_of(spec.train.precision)), right)


def _look_up(table: Table, spec: Experiment, net: SpikingNetwork, data: Dataset) -> Tensor:
    """The rows of the samples that train, at the student's temperature."""
    where = f"train.teacher: {table.place}"
    try:
        probabilities, labels = read_probability_file(table.place)
    except ValueError as error:
        raise ValueError(f"train.teacher: {error}") from error
    if probabilities.shape[1] != outputs_of(net):
        raise ValueError(
            f"{where} has {probabilities.shape[1]} classes, but net.notation {net.notation!r} has {outputs_of(net)} "
            "outputs; both must tell the same classes apart"
        )
    if not torch.equal(labels, data.train.labels.cpu()):
        found = "other labels" if len(labels) == len(data.train) else f"{len(labels)} rows"
        raise ValueError(
            f"{where} must have a row for each of the {len(data.train)} training samples of {data.title} as the "
            f"experiment's [data] gives them, in their order and with their labels, but has {found}"
        )
    rows, _ = training_rows(spec, data)
    return tempered(probabilities[rows], spec.train.temperature)


def _ask(
    teacher: Teacher,
    spec: Experiment,
    net: SpikingNetwork,
    data: Dataset,
    samples: Samples,
    setting: Setting,
    world: World,
) -> Tensor:
    theirs = load_run(teacher.run, device=setting.device)
    _require_fit(teacher, theirs, spec, net, data)
    precision = teacher.spec.train.precision
    batch = evaluation_batch(teacher.spec.train.evaluate_batch, samples)
    start, stop = world.share(len(samples))
    tick = setting.progress(f"asking {teacher.spec.name}", -(-(stop - start) // batch))
    with reproducible(precision), cast(precision, setting.device):
        return soft_targets(
            theirs,
            samples,
            scale=teacher.scale,
            temperature=spec.train.temperature,
            batch=batch,
            world=world,
            on_batch=tick,
        )


def _require_fit(
    teacher: Teacher, theirs: SpikingNetwork, spec: Experiment, net: SpikingNetwork, data: Dataset
) -> None:
    """The same data, as far as the teacher's run tells: its name, the shape of a sample, the number of classes."""
    where = f"train.teacher: {teacher.run}"
    if teacher.spec.data.name != spec.data.name:
        name = teacher.spec.data.name or teacher.spec.data.file
        raise ValueError(f"{where} was trained on {name}, but this is {data.title}; choose a run on the same data")
    if theirs.input_shape != data.shape:
        raise ValueError(
            f"{where} takes samples of shape {theirs.input_shape}, but {data.title} has {data.shape}; "
            "choose a run on the same data"
        )
    if outputs_of(theirs) != outputs_of(net):
        raise ValueError(
            f"{where} has {outputs_of(theirs)} outputs, but net.notation {net.notation!r} has {outputs_of(net)}; "
            "both must tell the same classes apart"
        )
