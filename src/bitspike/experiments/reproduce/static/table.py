"""The MNIST and FashionMNIST table of the paper, and the ablations of its annealed cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitspike.experiments.reproduce.tables.ablations import AT_0, AT_INF, MOVING
from bitspike.experiments.reproduce.tables.table import Ablation, PaperTable

if TYPE_CHECKING:
    from bitspike.experiments.schema import Experiment


def _times_steps(spec: Experiment) -> list[str]:
    """Return the learning rate that gives SGD the steps of a loss summed over T; Adam's step does not change.

    It is rounded to 12 digits: a product in binary is not the number that a person would write.
    """
    return [f"train.lr={spec.train.lr * spec.net.steps:.12g}"] if spec.train.optimizer == "sgd" else []


_ABLATIONS = (
    MOVING,
    AT_INF,
    AT_0,
    Ablation(
        "pooled",
        "batch norm takes its statistics over all time steps instead of each step's",
        lambda spec: ["net.norm=shared"],
    ),
    Ablation(
        "recalibrated",
        "batch norm's statistics are measured again, on 5120 training samples, before each evaluation",
        lambda spec: ["train.recalibrate=5120"],
    ),
    Ablation(
        "loss-not-over-T", "the loss is not divided by T (SGD: the learning rate is T times larger)", _times_steps
    ),
    Ablation("adam", "Adam instead of SGD, at the same rate", lambda spec: ["train.optimizer=adam"]),
    Ablation("no-dropout", "nothing is dropped", lambda spec: ["net.dropout=0"]),
    Ablation(
        "moving-no-dropout",
        "the surrogate moves with theta, and nothing is dropped",
        lambda spec: ["net.surrogate_center=current", "net.dropout=0"],
    ),
    Ablation(
        "torch-init",
        "weights start as PyTorch draws them, as the text says, instead of the released code's smaller ones",
        lambda spec: ["net.init=torch"],
    ),
    Ablation(
        "weight-clip",
        "every parameter is held in [-1, 1], as in the theta = 1 cells",
        lambda spec: ["train.weight_clip=1.0"],
    ),
)

STATIC = PaperTable(
    name="static",
    title="The MNIST and FashionMNIST table",
    about="static data",
    tasks=("mnist", "fashion"),
    ablations={each.name: each for each in _ABLATIONS},
)
