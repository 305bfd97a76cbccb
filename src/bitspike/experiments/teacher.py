"""A run as another's teacher: found, checked against what it is to teach, and asked about every training sample."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from bitspike.data.samples import Dataset, Samples
from bitspike.experiments.assembly import Setting, outputs_of
from bitspike.experiments.saved import best_trial, load_run
from bitspike.experiments.schema import Experiment, read_experiment
from bitspike.files import digest
from bitspike.nn import SpikingNetwork
from bitspike.train.distill import soft_targets
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


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What a teacher says: `targets [N, C]`, its probabilities for the training samples, in the student's dtype."""

    teacher: Teacher
    targets: Tensor
    accuracy: float | None  # on its test set, if its run is complete
    train_accuracy: float  # on the samples that it teaches

    def as_json(self) -> dict[str, Any]:
        """Who taught, for the summary."""
        return {
            "run": str(self.teacher.run),
            "experiment": self.teacher.spec.name,
            "protocol": self.teacher.spec.train.protocol,
            "accuracy": self.accuracy,
            "train_accuracy": self.train_accuracy,
            "digest": self.teacher.digest,
        }


def find_teacher(spec: Experiment) -> Teacher | None:
    """The run that `train.teacher` names (of trials: the best), if it names one."""
    given = spec.train.teacher
    if given is None:
        return None
    try:
        run = best_trial(given)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"train.teacher: {given} holds no run (any more); if it was moved, say where it is: --set train.teacher=RUN"
        ) from None
    weights = RunFolder(run).best
    if not weights.is_file():
        raise FileNotFoundError(f"train.teacher: {weights} does not exist; has the run finished its first epoch?")
    return Teacher(run, read_experiment(run / "experiment.toml"), digest(weights))


def take_lesson(
    spec: Experiment, net: SpikingNetwork, data: Dataset, samples: Samples, setting: Setting, world: World
) -> Lesson | None:
    """Ask the experiment's teacher, if it has one, about `samples`, those that train `net`; then it is not needed."""
    teacher = find_teacher(spec)
    if teacher is None:
        return None
    theirs = load_run(teacher.run, device=setting.device)
    _require_fit(teacher, theirs, spec, net, data)
    precision = teacher.spec.train.precision
    batch = evaluation_batch(teacher.spec.train.evaluate_batch, samples)
    start, stop = world.share(len(samples))
    tick = setting.progress(f"asking {teacher.spec.name}", -(-(stop - start) // batch))
    with reproducible(precision), cast(precision, setting.device):
        table = soft_targets(
            theirs,
            samples,
            scale=teacher.scale,
            temperature=spec.train.temperature,
            batch=batch,
            world=world,
            on_batch=tick,
        )
    right = (table.argmax(1) == samples.labels).double().mean().item()
    summary = RunFolder(teacher.run).read_summary() or {}
    setting.listener.note(f"teacher {teacher.run}: {right:.2%} of the training samples right")
    return Lesson(teacher, table.to(dtype_of(spec.train.precision)), summary.get("accuracy"), right)


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
