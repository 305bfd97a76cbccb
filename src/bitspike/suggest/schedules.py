"""`suggest_schedules`: a schedule of the threshold for each layer, in units of its drive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from bitspike.nn.access import neuron_layers
from bitspike.ops.checks import as_number
from bitspike.schedules import Constant, Relax, Schedule
from bitspike.suggest.drive import Drive
from bitspike.suggest.measure import is_static, measured

# The defaults of the final threshold, in units of the drive; docs/reports/annealing.md says from where.
SEQUENCE_STOP = 0.25  # the input is a sequence
STATIC_STOP = 0.5  # the input is an image, shown for some steps
FEEDBACK_STOP = 1.0  # the layer hears its own spikes
_REACHED = 0.95  # of the way from theta_0 to theta_inf: a relaxation never covers all of it
_HIGHEST_START = 0.5  # of the drive: most of what is driven fires there
_HIGHEST_FIRING = 0.99  # of the drive; at a membrane's very value, rounding would decide whether it fires


def suggest_schedules(
    net: nn.Module,
    batch: Any,
    *,
    iterations: int,
    start: float | None = None,
    stop: float | None = None,
    theta_inf: float | Sequence[float] | None = None,
    within: float = 0.3,
) -> list[Schedule]:
    """Suggest a schedule for each neuron layer, for `ThresholdAnnealing(net, ...)`, from the drive that `batch` gives.

    `net` is a network of `build`, or any module with neurons of bitspike, snnTorch or SpikingJelly that `net(batch)`
    runs over all time steps.

    theta_inf is `stop` times the typical peak of the layer's free membrane (`measure_drive`), or as given: one number,
    or one a layer. If `stop` is not given it is 0.25 on a sequence and 0.5 on a static batch (but at least twice
    `start`). theta_0 is `start` times the typical peak; if `start` is not given, it is half of `stop`, at most 0.5.
    Below 1, more than half of the driven neurons fire, so that every layer has input and gradients from the first
    iteration on. Where none of these is given, a layer that hears its own spikes gets a Constant of 1 times its typical
    peak: at a lower threshold its feedback drowns its input. Of a module of your own it is not known whether `batch` is
    static, so it counts as a sequence: give `stop=0.5` for images. benchmarks/threshold_study.py compared these levels
    (docs/reports/annealing.md).

    Each layer is measured with the layers before it at their theta_inf, or near their typical peak where theta_inf is
    above that: an untrained layer hardly fires there. A layer that hears its own spikes is measured with them. Behind
    a batch norm, thresholds are in units of the standard deviation of the layer's current.

    The rate brings theta 95 % of the way in a share `within` of the `iterations` of training; the rest of them learn at
    the final threshold. To a theta_inf above the typical peak it is lower where the paper's bound is: one update must
    not take theta past that peak (`Drive.largest_rate`). Sparser input drives less: it starts lower and, to a given
    theta_inf, goes slower.

    A layer whose given theta_inf is not above theta_0 needs no annealing and gets a Constant.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("20-50-10", generator=torch.Generator().manual_seed(0))
        >>> batch = torch.ones(30, 4, 20)  # [T, B, 20]
        >>> schedules = bitspike.suggest_schedules(net, batch, iterations=1000)
        >>> [type(schedule).__name__ for schedule in schedules]
        ['Relax', 'Relax']
        >>> annealing = bitspike.ThresholdAnnealing(net, schedules)
    """
    return [schedule for schedule, _ in suggest_with_drives(net, batch, iterations, start, stop, theta_inf, within)]


def suggest_with_drives(
    net: nn.Module,
    batch: Any,
    iterations: int,
    start: float | None = None,
    stop: float | None = None,
    theta_inf: float | Sequence[float] | None = None,
    within: float = 0.3,
) -> list[tuple[Schedule, Drive]]:
    """Return for each neuron layer its schedule and the drive that it comes from; see `suggest_schedules`."""
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise ValueError(
            "suggest_schedules: iterations must be a whole number >= 1, those of the whole training, "
            f"but is {iterations!r}"
        )
    start, stop = (
        None if value is None else as_number("suggest_schedules", name, value)
        for name, value in (("start", start), ("stop", stop))
    )
    if start is not None and not 0 < start < 1:
        raise ValueError(f"suggest_schedules: start must be in (0, 1), a share of the typical peak, but is {start!r}")
    if stop is not None and not stop > (start or 0):
        raise ValueError(f"suggest_schedules: stop must be > start, but they are {stop!r} and {start or 0!r}")
    rate = relaxing_rate(iterations, within)
    layers = neuron_layers("measure_drive", net)
    given = {} if theta_inf is None else _finals(theta_inf, list(layers))
    usual = STATIC_STOP if is_static(net, batch) else SEQUENCE_STOP

    def level(drive: Drive) -> float:
        return stop if stop is not None else max(FEEDBACK_STOP if drive.feedback else usual, 2 * (start or 0))

    def final(drive: Drive) -> float:
        return given.get(drive.layer, level(drive) * drive.typical)

    def first(drive: Drive) -> float:
        if drive.feedback and start is None and stop is None and drive.layer not in given:
            return level(drive)
        return start if start is not None else min(level(drive) / 2, _HIGHEST_START)

    drives = measured(net, batch, layers, lambda drive: min(final(drive), _HIGHEST_FIRING * drive.typical))
    return [(_schedule(drive, first(drive), final(drive), rate), drive) for drive in drives]


def _finals(theta_inf: float | Sequence[float], layers: list[str]) -> dict[str, float]:
    """Return the final threshold of each layer, from one number for all or a list."""
    wanted: list[Any] = list(theta_inf) if isinstance(theta_inf, list | tuple) else [theta_inf] * len(layers)
    for each in wanted:
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 < each < math.inf:
            raise ValueError(
                f"suggest_schedules: theta_inf must be a number > 0, or a list of one a layer, but has {each!r}"
            )
    if len(wanted) != len(layers):
        raise ValueError(
            f"suggest_schedules: theta_inf must be one number, or one a neuron layer, {len(layers)}, "
            f"but {len(wanted)} were given"
        )
    return {layer: float(each) for layer, each in zip(layers, wanted, strict=True)}


def relaxing_rate(iterations: int, within: float) -> float:
    """1 - 0.05**(1 / (within * iterations)): Relax covers 95 % of its way in that share of the iterations."""
    if not 0 < within <= 1:
        raise ValueError(f"relaxing_rate: within must be in (0, 1], a share of the iterations, but is {within!r}")
    return -math.expm1(math.log(1 - _REACHED) / (within * iterations))


def _schedule(drive: Drive, start: float, final: float, rate: float) -> Schedule:
    first = start * drive.typical
    if final <= first:
        return Constant(final)
    return Relax(first, final, min(rate, replace(drive, theta=first).largest_rate(final)))
