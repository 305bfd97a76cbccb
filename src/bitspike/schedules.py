"""Thresholds and learning rates as closed forms of the training iteration: no torch, no hidden state.

`Constant`, `Linear` and `Relax` are thresholds; `Cosine` and `WarmupCosine` are learning rates, as is `Constant`;
`Exponential` is the width of delays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Protocol, runtime_checkable


@runtime_checkable
class Schedule(Protocol):
    """A threshold for every training iteration: `schedule(step)` and, after all of them, `final`.

    Examples:
        >>> import bitspike
        >>> class Step:
        ...     def __call__(self, step: int) -> float:
        ...         return 1.0 if step < 100 else 2.0
        ...     @property
        ...     def final(self) -> float:
        ...         return 2.0
        ...
        >>> isinstance(Step(), bitspike.Schedule)
        True
    """

    def __call__(self, step: int) -> float: ...

    @property
    def final(self) -> float: ...


def _require_number(where: str, name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{where}: {name} must be a number, but is {value!r}")


def _require_threshold(where: str, name: str, value: float) -> None:
    _require_number(where, name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(
            f"{where}: {name} must be a finite number > 0, but is {value!r}; a threshold of 0 or less fires at rest"
        )


def _require_rise(where: str, start: float, stop: float) -> None:
    _require_threshold(where, "start", start)
    _require_threshold(where, "stop", stop)
    if stop <= start:
        raise ValueError(
            f"{where}: stop must be > start, but start={start!r} and stop={stop!r}; "
            f"thresholds are annealed upwards (use Constant({start!r}) for one that stays)"
        )


def _require_step(where: str, step: int) -> None:
    if step < 0:
        raise ValueError(f"{where}: step must be >= 0, but is {step!r}; it counts training iterations from 0")


@dataclass(frozen=True, slots=True)
class Constant:
    """theta(k) = value; also a learning rate that stays.

    Examples:
        >>> import bitspike
        >>> schedule = bitspike.Constant(2.0)
        >>> schedule(0), schedule(1000), schedule.final
        (2.0, 2.0, 2.0)
    """

    value: float

    def __post_init__(self) -> None:
        _require_threshold("Constant", "value", self.value)

    def __call__(self, step: int) -> float:
        _require_step("Constant", step)
        return self.value

    @property
    def final(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Linear:
    """theta(k) = start + (stop - start) * min(k / steps, 1).

    Examples:
        >>> import bitspike
        >>> schedule = bitspike.Linear(start=1.0, stop=3.0, steps=100)
        >>> schedule(0), schedule(50), schedule(100), schedule(1000)
        (1.0, 2.0, 3.0, 3.0)
    """

    start: float
    stop: float
    steps: int

    def __post_init__(self) -> None:
        _require_rise("Linear", self.start, self.stop)
        _require_number("Linear", "steps", self.steps)
        if not self.steps >= 1:
            raise ValueError(
                f"Linear: steps must be >= 1, but is {self.steps!r}; it is the number of iterations of the rise"
            )

    def __call__(self, step: int) -> float:
        _require_step("Linear", step)
        if step >= self.steps:
            return self.stop
        return self.start + (self.stop - self.start) * (step / self.steps)

    @property
    def final(self) -> float:
        return self.stop


@dataclass(frozen=True, slots=True)
class Relax:
    """theta(k) = stop - (stop - start) * (1 - rate)**k, the closed form of the paper's update rule.

    Each iteration moves theta by rate * (stop - theta); `rate` is the alpha of the paper's tables.

    Examples:
        >>> import bitspike
        >>> schedule = bitspike.Relax(start=1.0, stop=2.0, rate=0.5)
        >>> schedule(0), schedule(1), schedule(2), schedule.final
        (1.0, 1.5, 1.75, 2.0)
        >>> round(bitspike.Relax.from_tau(start=1.0, stop=2.0, tau=100)(100), 4)
        1.6321
    """

    start: float
    stop: float
    rate: float

    def __post_init__(self) -> None:
        _require_rise("Relax", self.start, self.stop)
        _require_number("Relax", "rate", self.rate)
        if not 0 < self.rate <= 1:
            raise ValueError(
                f"Relax: rate must be in (0, 1], but is {self.rate!r}; it is the share of the remaining "
                "distance covered per iteration (Relax.from_tau takes a time constant in iterations)"
            )

    @classmethod
    def from_tau(cls, start: float, stop: float, tau: float) -> Relax:
        """rate = 1 - exp(-1/tau): the threshold covers 63 % of the way in `tau` iterations.

        The paper's text writes alpha = exp(-1/tau), which would make a slower relaxation jump further;
        its own differential equation, sampled once an iteration, gives the formula used here.
        """
        _require_number("Relax.from_tau", "tau", tau)
        if not (math.isfinite(tau) and tau > 0):
            raise ValueError(f"Relax.from_tau: tau must be a finite number of iterations > 0, but is {tau!r}")
        return cls(start, stop, -math.expm1(-1.0 / tau))

    def __call__(self, step: int) -> float:
        _require_step("Relax", step)
        if step == 0:
            return self.start  # the form below may be a last bit off
        return self.stop - (self.stop - self.start) * (1.0 - self.rate) ** step

    @property
    def final(self) -> float:
        return self.stop


def _require_rate(where: str, name: str, value: float) -> None:
    _require_number(where, name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{where}: {name} must be a finite learning rate > 0, but is {value!r}")


def _require_iterations(where: str, name: str, value: int) -> None:
    _require_number(where, name, value)
    if not value >= 1:
        raise ValueError(f"{where}: {name} must be >= 1, but is {value!r}; it counts training iterations")


@dataclass(frozen=True, slots=True)
class Cosine:
    """lr(k) = start/2 * (1 + cos(pi * k / half_period)): from start to 0 in half a period, and up again."""

    start: float
    half_period: int

    def __post_init__(self) -> None:
        _require_rate("Cosine", "start", self.start)
        _require_iterations("Cosine", "half_period", self.half_period)

    def __call__(self, step: int) -> float:
        _require_step("Cosine", step)
        return self.start / 2 * (1 + math.cos(math.pi * step / self.half_period))


@dataclass(frozen=True, slots=True)
class WarmupCosine:
    """lr(k) = peak * k / warmup while k < warmup, then peak/2 * (1 + cos(pi * (k - warmup) / (steps - warmup))).

    It is 0 from iteration `steps` on; `warmup` need not be whole.
    """

    peak: float
    warmup: float
    steps: int

    def __post_init__(self) -> None:
        _require_rate("WarmupCosine", "peak", self.peak)
        _require_iterations("WarmupCosine", "steps", self.steps)
        _require_number("WarmupCosine", "warmup", self.warmup)
        if not 0 <= self.warmup < self.steps:
            raise ValueError(
                f"WarmupCosine: warmup must be in [0, steps), but is {self.warmup!r} of {self.steps!r} iterations"
            )

    def __call__(self, step: int) -> float:
        _require_step("WarmupCosine", step)
        if step < self.warmup:
            return self.peak * step / self.warmup
        return self.peak / 2 * (1 + math.cos(math.pi * min((step - self.warmup) / (self.steps - self.warmup), 1.0)))


@dataclass(frozen=True, slots=True)
class Exponential:
    """w(k) = start * (stop / start)**(k / steps) while k < steps, then stop: each iteration multiplies by one factor.

    `steps` need not be whole; if it is 0, w is `stop` from the first iteration on.

    Examples:
        >>> from bitspike.schedules import Exponential
        >>> width = Exponential(start=8.0, stop=0.5, steps=4)
        >>> [width(k) for k in range(6)]
        [8.0, 4.0, 2.0, 1.0, 0.5, 0.5]
    """

    start: float
    stop: float
    steps: float

    def __post_init__(self) -> None:
        for name in ("start", "stop"):
            _require_number("Exponential", name, value := getattr(self, name))
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"Exponential: {name} must be a finite number > 0, but is {value!r}")
        _require_number("Exponential", "steps", self.steps)
        if not 0 <= self.steps < math.inf:
            raise ValueError(f"Exponential: steps must be a finite number >= 0, but is {self.steps!r}")

    def __call__(self, step: int) -> float:
        _require_step("Exponential", step)
        return self.start * (self.stop / self.start) ** (step / self.steps) if step < self.steps else self.stop
