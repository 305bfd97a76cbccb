"""Threshold annealing: after each optimizer step, write the schedule's next threshold into every neuron layer."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.nn import LIF
from bitspike.schedules import Schedule


class _Ours:
    """A bitspike layer: the surrogate's center is kept beside the threshold."""

    @staticmethod
    def read(module: Any) -> float:
        return float(module.theta)

    @staticmethod
    def write(module: Any, theta: float, initial: float) -> None:
        module.set_theta(theta, initial=initial)

    @staticmethod
    def buffers(module: Any) -> list[Tensor]:
        return [module.theta, *([module.theta_grad] if module.surrogate_center == "current" else [])]


class _Attribute:
    """A peer's layer: a number or tensor under some name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, module: Any) -> float:
        value = getattr(module, self.name)
        return float(value.detach().float().mean()) if isinstance(value, Tensor) else float(value)

    @torch.no_grad()
    def write(self, module: Any, theta: float, initial: float) -> None:
        value = getattr(module, self.name)
        if not isinstance(value, Tensor):
            setattr(module, self.name, theta)
            return
        if not value.is_floating_point():  # snnTorch keeps threshold=1 as a whole number
            setattr(module, self.name, value.float())
        getattr(module, self.name).fill_(theta)  # in place: a learnable threshold stays the optimizer's parameter

    def buffers(self, module: Any) -> list[Tensor]:
        value = getattr(module, self.name)
        if not isinstance(value, Tensor):
            raise ValueError(
                f"ThresholdAnnealing: the {self.name} of a {type(module).__name__} must be a tensor to be written by "
                f"others, but is {value!r}; call step() instead"
            )
        return [value]


_Access = _Ours | _Attribute


def _libraries(module: nn.Module) -> set[str]:
    """The top-level packages that a module's class and its bases come from."""
    return {base.__module__.partition(".")[0] for base in type(module).__mro__}


def _access(module: nn.Module) -> _Access | None:
    """How to reach a module's threshold, without importing libraries that are not in use; None if it has none."""
    if isinstance(module, LIF):
        return _Ours()
    libraries = _libraries(module)
    if "snntorch" in libraries and isinstance(getattr(module, "threshold", None), Tensor):
        return _Attribute("threshold")
    if "spikingjelly" in libraries and isinstance(getattr(module, "v_threshold", None), (int, float, Tensor)):
        return _Attribute("v_threshold")
    return None


class ThresholdAnnealing:
    """Raises the thresholds of `net` along `schedules`; call `.step()` once after each `optimizer.step()`.

    Not before `loss.backward()`, which needs the thresholds of the forward pass: with bitspike layers PyTorch refuses.

    `net` may hold layers of bitspike, snnTorch (`threshold`) and SpikingJelly (`v_threshold`), mixed too.
    `schedules` is one schedule for all, a list with one a neuron layer in module order, or a dict by
    module name (layers it does not name keep their threshold). Creating it writes the starting thresholds.

    The surrogate stays at the starting threshold in bitspike layers (`surrogate_center="initial"`); snnTorch and
    SpikingJelly center theirs on the current threshold and have no way to hold it.
    """

    def __init__(self, net: nn.Module, schedules: Schedule | Sequence[Schedule] | Mapping[str, Schedule]) -> None:
        self._layers = {name: (m, access) for name, m in net.named_modules() if (access := _access(m)) is not None}
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

    def buffers(self) -> list[Tensor]:
        """The tensors that `step()` writes, for a training step that does it itself, as one in a CUDA graph."""
        return [buffer for name in self._schedules for buffer in self._buffers(name)]

    def values(self, step: int) -> list[float]:
        """What `buffers()` hold after `step` iterations, a number each."""
        return [theta for name, s in self._schedules.items() for theta in [s(step)] * len(self._buffers(name))]

    def passed(self, steps: int = 1) -> None:
        """So many iterations have passed, which wrote the thresholds (`values`) themselves."""
        self._step += steps
        self._finished = False

    def _buffers(self, name: str) -> list[Tensor]:
        module, access = self._layers[name]
        return access.buffers(module)

    def finish(self) -> AbstractContextManager[Any]:
        """Write the final thresholds, as the paper uses at test time.

        For good, or for a while in training: `with annealing.finish(): evaluate(net)` goes back to the
        schedule afterwards.
        """
        self._finished = True
        self._write()
        back = ExitStack()
        back.callback(self._unfinish)
        return back

    def _unfinish(self) -> None:
        self._finished = False
        self._write()

    def thresholds(self) -> dict[str, float]:
        """The threshold of every neuron layer now, by module name."""
        return {name: access.read(module) for name, (module, access) in self._layers.items()}

    def schedules(self) -> dict[str, Schedule]:
        """What is annealed, by module name."""
        return dict(self._schedules)

    def _write(self) -> None:
        for name, schedule in self._schedules.items():
            theta = schedule.final if self._finished else schedule(self._step)
            module, access = self._layers[name]
            access.write(module, theta, schedule(0))

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
                "ThresholdAnnealing: the state was saved with other schedules; thresholds at steps 0, 1, 1000 and in "
                f"the end were {dict(state['schedules'])}, but are {self._described()} here; "
                "create it with the saved ones to continue"
            )
        step = state["step"]
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError(f"ThresholdAnnealing: the state's step must be a whole number >= 0, but is {step!r}")
        self._step, self._finished = step, bool(state["finished"])
        self._write()

    def _described(self) -> dict[str, list[float]]:
        """Schedules by their values at a few steps: alike for any kind of schedule, and exact through JSON."""
        return {name: [float(s(0)), float(s(1)), float(s(1000)), float(s.final)] for name, s in self._schedules.items()}
