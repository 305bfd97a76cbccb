"""bitspike: train, explain and ship 1-bit spiking neural networks. Tensors are time first, `[T, B, ...]`."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Adaptation",
    "AdaptiveLIF",
    "BinaryConv2d",
    "BinaryLinear",
    "Constant",
    "Delay",
    "Gain",
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
    "delay",
    "evaluate_on",
    "initialize",
    "latency",
    "lif",
    "load_packed",
    "load_run",
    "poisson",
    "pretrained",
    "record",
    "save_packed",
    "suggest_schedules",
    "trace_loss",
    "train_on",
]

if TYPE_CHECKING:  # for type checkers and editors; a test holds this to what is imported below
    from bitspike import analysis as analysis
    from bitspike import data as data
    from bitspike import nn as nn
    from bitspike import ops as ops
    from bitspike import schedules as schedules
    from bitspike import train as train
    from bitspike.anneal import ThresholdAnnealing
    from bitspike.data import latency, poisson
    from bitspike.deploy.engine import load_packed
    from bitspike.deploy.packed import save_packed
    from bitspike.deploy.pretrained import pretrained
    from bitspike.experiments.passed import evaluate_on, train_on
    from bitspike.experiments.saved import load_run
    from bitspike.nn import (
        LIF,
        AdaptiveLIF,
        BinaryConv2d,
        BinaryLinear,
        Delay,
        Gain,
        RecurrentLIF,
        SpikingNetwork,
        build,
        initialize,
        record,
    )
    from bitspike.ops import Adaptation, LIFOutput, LIFState, binarize, delay, lif
    from bitspike.schedules import Constant, Linear, Relax, Schedule
    from bitspike.suggest import suggest_schedules
    from bitspike.train import count_loss, cross_entropy_loss, trace_loss
else:
    from bitspike._lazy import lazy

    __getattr__, __dir__ = lazy(
        __name__,
        {
            "bitspike.anneal": ["ThresholdAnnealing"],
            "bitspike.data": ["latency", "poisson"],
            "bitspike.deploy.engine": ["load_packed"],
            "bitspike.deploy.packed": ["save_packed"],
            "bitspike.deploy.pretrained": ["pretrained"],
            "bitspike.experiments.passed": ["evaluate_on", "train_on"],
            "bitspike.experiments.saved": ["load_run"],
            "bitspike.nn": [
                *("LIF", "AdaptiveLIF", "BinaryConv2d", "BinaryLinear", "Delay", "Gain"),
                *("RecurrentLIF", "SpikingNetwork", "build", "initialize", "record"),
            ],
            "bitspike.ops": ["Adaptation", "LIFOutput", "LIFState", "binarize", "delay", "lif"],
            "bitspike.schedules": ["Constant", "Linear", "Relax", "Schedule"],
            "bitspike.suggest": ["suggest_schedules"],
            "bitspike.train": ["count_loss", "cross_entropy_loss", "trace_loss"],
        },
        modules=["analysis", "data", "nn", "ops", "schedules", "train"],
    )
