"""bitspike: train, explain and ship 1-bit spiking neural networks. Tensors are time first, `[T, B, ...]`."""

from typing import TYPE_CHECKING, Any

from bitspike.anneal import ThresholdAnnealing
from bitspike.data import latency, poisson
from bitspike.nn import (
    LIF,
    AdaptiveLIF,
    BinaryConv2d,
    BinaryLinear,
    RecurrentLIF,
    SpikingNetwork,
    build,
    initialize,
    record,
)
from bitspike.ops import Adaptation, LIFOutput, LIFState, binarize, lif
from bitspike.schedules import Constant, Linear, Relax, Schedule
from bitspike.suggest import suggest_schedules
from bitspike.train import count_loss, cross_entropy_loss, trace_loss

if TYPE_CHECKING:
    from bitspike.experiments.saved import load_run

__version__ = "0.1.0"

__all__ = [
    "Adaptation",
    "AdaptiveLIF",
    "BinaryConv2d",
    "BinaryLinear",
    "Constant",
    "LIF",
    "LIFOutput",
    "LIFState",
    "Linear",
    "RecurrentLIF",
    "Relax",
    "Schedule",
    "SpikingNetwork",
    "ThresholdAnnealing",
    "binarize",
    "build",
    "count_loss",
    "cross_entropy_loss",
    "initialize",
    "latency",
    "lif",
    "load_run",
    "poisson",
    "record",
    "suggest_schedules",
    "trace_loss",
]


def __getattr__(name: str) -> Any:
    """What needs the `train` extra is imported when it is first used."""
    if name == "load_run":
        import bitspike.config  # noqa: F401  (first: it says what to install)
        from bitspike.experiments.saved import load_run

        return load_run
    raise AttributeError(f"module 'bitspike' has no attribute {name!r}")
