"""Threshold annealing: after each optimizer step, write the schedule's next threshold into every neuron layer."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.nn import LIF
from bitspike.schedules import Schedule


@dataclass(frozen=True, slots=True)
class _Layer:
    """A neuron layer of any library: how to read its threshold, and write (threshold, starting threshold)."""

    module: nn.Module
    read: Callable[[], float]
    write: Callable[[float, float], None]


def _ours(module: LIF) -> _Layer:
    return _Layer(module, lambda: module.theta.item(), lambda theta, initial: module.set_theta(theta, initial=initial))


def _snntorch(module: Any) -> _Layer:
    @torch.no_grad()
    def write(theta: float, _initial: float) -> None:
        if not module.threshold.is_floating_point():  # snnTorch keeps threshold=1 as a whole number
            module.threshold = module.threshold.float()
        module.threshold.fill_(theta)  # in place: a learnable threshold stays the optimizer's parameter

    return _Layer(module, lambda: float(module.threshold.detach().float().mean()), write)


def _spikingjelly(module: Any) -> _Layer:
    @torch.no_grad()
    def write(theta: float, _initial: float) -> None:
        if isinstance(module.v_threshold, Tensor):
            module.v_threshold.fill_(theta)
        else:
            module.v_threshold = theta

    def read() -> float:
        value = module.v_threshold
        return float(value.detach().float().mean()) if isinstance(value, Tensor) else float(value)

    return _Layer(module, read, write)


def _libraries(module: nn.Module) -> set[str]:
    """The top-level packages that a module's class and its bases come from."""
    return {base.__module__.partition(".")[0] for base in type(module).__mro__}


def _as_layer(module: nn.Module) -> _Layer | None:
    """The neuron layer a module is, without importing libraries that are not in use; None if it is something else."""
    if isinstance(module, LIF):
        return _ours(module)
    libraries = _libraries(module)
    if "snntorch" in libraries and isinstance(getattr(module, "threshold", None), Tensor):
        return _snntorch(module)
    if "spikingjelly" in libraries and isinstance(getattr(module, "v_threshold", None), (int, float, Tensor)):
        return _spikingjelly(module)
    return None


class ThresholdAnnealing:
    """Raises the thresholds of `net` along `schedules`; call `.step()` once after each `optimizer.step()`.

    `net` may hold layers of bitspike, snnTorch (`threshold`) and SpikingJelly (`v_threshold`), mixed too.
    `schedules` is one schedule for all, a list with one a neuron layer in module order, or a dict by
    module name (layers it does not name keep their threshold). Creating it writes the starting thresholds.

    The surrogate stays at the starting threshold in bitspike layers (`surrogate_center="initial"`); snnTorch and
    SpikingJelly center theirs on the current threshold and have no way to hold it.
    """

    def __init__(self, net: nn.Module, schedules: Schedule | Sequence[Schedule] | Mapping[str, Schedule]) -> None:
        self._layers = {name: layer for name, m in net.named_modules() if (layer := _as_layer(m)) is not None}
        if not self._layers:
            raise ValueError(
                "ThresholdAnnealing: the network has no neuron layer that can be annealed; bitspike LIF layers, "
                "snnTorch neurons and SpikingJelly neurons can"
            )
        self._schedules = self._by_name(schedules)
        self._step = 0
        self._finished = False
        self._write()

    def _by_name(self, schedules: Schedule | Sequence[Schedule] | Mapping[str, Schedule]) -> dict[str, Schedule]:
        known = list(self._layers)
        if isinstance(schedules, Mapping):
            for name in schedules:
                if name not in self._layers:
                    near = difflib.get_close_matches(str(name), known, 1)
                    hint = f"; did you mean {near[0]!r}?" if near else ""
                    raise KeyError(
                        f"ThresholdAnnealing: no neuron layer is named {name!r}; known: {', '.join(known)}{hint}"
                    )
            by_name = dict(schedules)
        elif isinstance(schedules, Sequence):
            if len(schedules) != len(known):
                raise ValueError(
                    f"ThresholdAnnealing: the list must have one schedule a neuron layer, {len(known)} "
                    f"({', '.join(known)}), but has {len(schedules)}; use a dict by name to anneal only some"
                )
            by_name = dict(zip(known, schedules, strict=True))
        else:
            by_name = dict.fromkeys(known, schedules)
        for name, schedule in by_name.items():
            if isinstance(schedule, type) or not isinstance(schedule, Schedule):
                raise TypeError(
                    f"ThresholdAnnealing: the schedule of {name!r} must be a Relax, Linear, Constant or other "
                    f"callable of the step with a `final` value, but is {schedule!r}"
                )
        return by_name

    @property
    def steps_taken(self) -> int:
        """Training iterations so far."""
        return self._step

    def step(self) -> None:
        """One training iteration has passed: write the next thresholds."""
        self._step += 1
        self._finished = False
        self._write()

    def finish(self) -> None:
        """Write the final thresholds, as the paper uses at test time."""
        self._finished = True
        self._write()

    def thresholds(self) -> dict[str, float]:
        """The threshold of every neuron layer now, by module name."""
        return {name: layer.read() for name, layer in self._layers.items()}

    def _write(self) -> None:
        for name, schedule in self._schedules.items():
            theta = schedule.final if self._finished else schedule(self._step)
            self._layers[name].write(theta, schedule(0))

    def state_dict(self) -> dict[str, Any]:
        """The iteration, and what is annealed: schedules are closed forms, so nothing else is needed."""
        return {"step": self._step, "finished": self._finished, "schedules": self._described()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the saved iteration; refuses a state that was saved with other schedules."""
        missing = {"step", "finished", "schedules"} - set(state)
        if missing:
            raise ValueError(
                f"ThresholdAnnealing: the state lacks {', '.join(sorted(missing))}; was it saved by state_dict()?"
            )
        if dict(state["schedules"]) != self._described():
            raise ValueError(
                f"ThresholdAnnealing: the state was saved with the schedules {dict(state['schedules'])}, but this "
                f"one has {self._described()}; create it with the saved ones to continue"
            )
        step = state["step"]
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError(f"ThresholdAnnealing: the state's step must be a whole number >= 0, but is {step!r}")
        self._step, self._finished = step, bool(state["finished"])
        self._write()

    def _described(self) -> dict[str, str]:
        return {name: repr(schedule) for name, schedule in self._schedules.items()}
