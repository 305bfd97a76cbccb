"""The DVS128 Gesture and SHD table of the paper, and the ablations of its annealed cells."""

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

TEMPORAL = PaperTable(
    name="temporal",
    title="The DVS128 Gesture and SHD table",
    about="temporal data",
    tasks=("dvs128", "shd"),
    ablations={each.name: each for each in _ABLATIONS},
    protocols=("paper", "holdout"),
    skips_missing=True,
    # Section on spiking activity: "55 % and 90 % [...], compared to approximately 20 % with threshold annealing".
    dead={"shd": {"fixed": (55.0, 90.0), "annealed": (20.0, 20.0)}},
)
