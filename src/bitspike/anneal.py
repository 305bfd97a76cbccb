"""Threshold annealing: after each optimizer step, write the schedule's next threshold into every neuron layer."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor, nn

from bitspike.nn.access import neuron_layers
from bitspike.schedules import Schedule


class ThresholdAnnealing:
    """Raises the thresholds of `net` along `schedules`; call `.step()` once after each `optimizer.step()`.

    Do not call it before `loss.backward()`, which needs the thresholds of the forward pass: bitspike layers then raise
    an error. Layers of snnTorch and SpikingJelly keep what they need; there the order changes nothing.

    `net` may hold layers of bitspike, snnTorch (`threshold`) and SpikingJelly (`v_threshold`), mixed too.
    `schedules` is one schedule for all, a list with one a neuron layer in module order, or a dict by
    module name (layers it does not name keep their threshold). Creating it writes the starting thresholds.

    The surrogate stays at the starting threshold in bitspike layers (`surrogate_center="initial"`); snnTorch and
    SpikingJelly center theirs on the current threshold and have no way to hold it.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("4-3-2")
        >>> annealing = bitspike.ThresholdAnnealing(net, bitspike.Relax(start=1.0, stop=3.0, rate=0.5))
        >>> annealing.thresholds()
        {'layers.0.lif': 1.0, 'layers.1.lif': 1.0}
        >>> optimizer = torch.optim.Adam(net.parameters())
        >>> loss = bitspike.count_loss(net(torch.rand(10, 8, 4)).spikes, torch.zeros(8, dtype=torch.long))
        >>> loss.backward()
        >>> optimizer.step()
        >>> annealing.step()
        >>> annealing.thresholds()
        {'layers.0.lif': 2.0, 'layers.1.lif': 2.0}
        >>> with annealing.finish():
        ...     print(annealing.thresholds())
        ...
        {'layers.0.lif': 3.0, 'layers.1.lif': 3.0}
    """

    def __init__(self, net: nn.Module, schedules: Schedule | Sequence[Schedule] | Mapping[str, Schedule]) -> None:
        self._layers = neuron_layers("ThresholdAnnealing", net)
        self._schedules = self._by_name(schedules)
        self._step = 0
        self._for_good: set[object] = set()  # the calls of finish() that hold: final thresholds until the next step
        self._blocks = 0  # `with annealing.finish()` blocks that are open
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
        """The number of training iterations so far."""
        return self._step

    def step(self) -> None:
        """Write the thresholds of the next training iteration.

        Training continues where it was, also after `finish()`. Inside `with annealing.finish():` the iteration is
        counted, and its thresholds are written after the block.
        """
        self._step += 1
        self._for_good.clear()
        self._write()

    def buffers(self) -> list[Tensor]:
        """Return the tensors that `step()` writes, for a training step (in a CUDA graph) that writes them itself."""
        return [buffer for name in self._schedules for buffer in self._buffers(name)]

    def values(self, step: int) -> list[float]:
        """Return the values of the tensors of `buffers()` after `step` iterations, one number for each."""
        return [theta for name, s in self._schedules.items() for theta in [s(step)] * len(self._buffers(name))]

    def passed(self, steps: int = 1) -> None:
        """Count iterations that have written the thresholds (`values`) themselves."""
        self._step += steps
        self._for_good.clear()
        if self._blocks:
            self._write()

    def _buffers(self, name: str) -> list[Tensor]:
        return self._layers[name].buffers()

    def finish(self) -> AbstractContextManager[None]:
        """Write the final thresholds, as the paper uses at test time.

        They stay until the next `step()`. Within training, `with annealing.finish(): evaluate(net)` sets them only for
        the block; after it thresholds are what they would be without it, also if blocks are nested or `finish()` was
        called before. Inside the block `state_dict()` is that of training.
        """
        finish = _Finish(self)
        self._for_good.add(finish)
        self._write()
        return finish

    def thresholds(self) -> dict[str, float]:
        """Return the current threshold of every neuron layer, by module name."""
        return {name: neurons.read() for name, neurons in self._layers.items()}

    def schedules(self) -> dict[str, Schedule]:
        """Return the schedules by module name."""
        return dict(self._schedules)

    def _write(self) -> None:
        final = bool(self._for_good or self._blocks)
        for name, schedule in self._schedules.items():
            theta = schedule.final if final else schedule(self._step)
            self._layers[name].write(theta, initial=schedule(0))

    def state_dict(self) -> dict[str, Any]:
        """Return the iteration and the schedules; they are closed forms, so nothing else is needed to resume."""
        return {"step": self._step, "finished": bool(self._for_good), "schedules": self._described()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the saved iteration; refuse a state that was saved with other schedules."""
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
        self._step, self._for_good = step, {"loaded"} if state["finished"] else set()
        self._write()

    def _described(self) -> dict[str, list[float]]:
        """Describe schedules by their values at a few steps, which works for every schedule and is exact in JSON."""
        return {name: [float(s(0)), float(s(1)), float(s(1000)), float(s.final)] for name, s in self._schedules.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, which is in none of the original's `with` blocks: it could never leave them."""
        return vars(self) | {"_blocks": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._write()


class _Finish(AbstractContextManager[None]):
    """The result of `finish()`: final thresholds from now on, or only within a `with` block, which may be repeated."""

    def __init__(self, annealing: ThresholdAnnealing) -> None:
        self._annealing = annealing

    def __enter__(self) -> None:
        self._annealing._for_good.discard(self)
        self._annealing._blocks += 1
        self._annealing._write()

    def __exit__(self, *_: object) -> None:
        self._annealing._blocks -= 1
        self._annealing._write()
