"""The DVS128 Gesture and SHD table of the paper, stand-ins for DVS128 Gesture, and ablations of annealed cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitspike.experiments.reproduce.tables.ablations import AT_0, AT_INF, MOVING
from bitspike.experiments.reproduce.tables.table import Ablation, PaperTable

if TYPE_CHECKING:
    from bitspike.experiments.schema import Experiment


def _loaders_cut(spec: Experiment) -> list[str]:
    """Return the cut of the released loader of SHD: there are T bins, but events after T milliseconds are left out."""
    return [f"data.duration_ms={spec.data.steps}"] if spec.data.name == "shd" else []


_ABLATIONS = (
    MOVING,
    Ablation("cut", "recordings end after T ms, T the number of bins, as in the released loader", _loaders_cut),
    AT_INF,
    AT_0,
)

_INSTEAD = (
    "stands in for dvs128, with the networks and hyperparameters of its cells, not tuned: {what}; not in the paper"
)
TEMPORAL = PaperTable(
    name="temporal",
    title="The DVS128 Gesture and SHD table",
    about="temporal data",
    tasks=("dvs128", "shd"),
    stand_ins={
        "nmnist-small": _INSTEAD.format(what="1,100 digits before a real event camera"),
        "dvs-sign": _INSTEAD.format(what="750 hand signs, events simulated from video"),
    },
    ablations={each.name: each for each in _ABLATIONS},
    protocols=("paper", "holdout"),
    skips_missing=True,
    dead_over_time=True,
    # Section on spiking activity: "55 % and 90 % [...], compared to approximately 20 % with threshold annealing".
    dead={"shd": {"fixed": (55.0, 90.0), "annealed": (20.0, 20.0)}},
)
