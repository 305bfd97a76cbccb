"""Signs that a run cannot learn (silent layers, gradients that are not finite), and messages that say what to try."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bitspike.anneal import ThresholdAnnealing
from bitspike.ops.available import fused_on_gpu


class FirstBad:
    """The first iteration at which each parameter's gradient was not finite; kept on the device, read now and then.

    NaN does not show in the loss: a membrane that is NaN never reaches the threshold, so the layer falls silent.
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self.names = list(names)
        self.first = torch.full((len(names),), -1, dtype=torch.int64, device=device)

    def look(self, norms: Tensor, step: Tensor) -> None:
        """Note the parameters whose gradient norm is not finite at `step`, which is on the device too."""
        if fused_on_gpu(norms.device) and norms.dtype == torch.float32:
            from bitspike.ops.batches.triton import note_first_bad_

            note_first_bad_(self.first, norms, step)
            return
        known = (norms < math.inf) | (self.first >= 0)  # NaN is not below infinity
        torch.where(known, self.first, step, out=self.first)

    def found(self) -> tuple[str, int] | None:
        """Return the parameter whose gradient was not finite first, and its iteration; None if all were finite."""
        steps = self.first.tolist()
        bad = [(step, -i) for i, step in enumerate(steps) if step >= 0]
        if not bad:
            return None
        # if several came at once, take the last layer's: the backward pass reaches it first
        step, i = min(bad)
        return self.names[-i], step


def nan_message(parameter: str, step: int, lr: float) -> str:
    """Return a message: which gradient is not finite, since which iteration, and what to try.

    In the first iteration nothing has been learnt, so neither learning rate nor clipping is the remedy: the gradient
    has grown on its way back through time and layers, which the surrogate's width decides.
    """
    if step == 0:
        return (
            f"the gradient of {parameter} is not finite in the first iteration; train.lr and train.grad_clip cannot "
            "help before the first update: try a larger net.slope (4 times), fewer time steps, or without net.recurrent"
        )
    return (
        f"the gradient of {parameter} is not finite since iteration {step} (lr {lr:.3g} there); "
        "try a smaller train.lr, train.grad_clip=1, or a larger net.slope"
    )


def dead_message(layer: str, since: int, theta: float, final: float, start: float) -> str:
    """Return a message: which layer is silent, since which iteration, and what to try."""
    if final > start:
        rise = f"it is annealed from {start:.4g} to {final:.4g}: try a lower stop or a smaller rate for this layer"
    else:
        rise = "try a lower theta for this layer, or anneal up to it: theta = {start, stop, rate}"
    return (
        f"{layer} is silent: none of its neurons fired from iteration {since} on, as far as watched "
        f"(theta {theta:.4g}; {rise}; a smaller net.slope lets gradients reach neurons far below theta)"
    )


MOST_NAMED = 2  # silent layers that get a line each; more at once share one


def dead_layers_message(layers: Sequence[str], first: str) -> str:
    """Return a message that many layers are silent; `first` is that of the first, which may silence the others."""
    named, rest = layers[:MOST_NAMED], len(layers) - MOST_NAMED
    return f"{len(layers)} layers are silent: {', '.join(named)} and {rest} more; the first: {first}"


class SilentLayers:
    """The layers that fire no spike, and the iteration since which they are silent.

    A layer may be silent in one batch; it is reported, once, after three watched batches in a row or a whole
    evaluation.
    """

    ENOUGH = 3

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.since: dict[str, int] = {}
        self.streak: dict[str, int] = {}
        self.reported: list[str] = []

    def look(self, dead: Sequence[float], step: int, *, whole: bool) -> list[str]:
        """Return the layers to report now; `whole` is True if the shares come from a whole evaluation."""
        for name, share in zip(self.names, dead, strict=True):
            if share < 1:
                self.since.pop(name, None)
                self.streak.pop(name, None)
            else:
                self.since.setdefault(name, step)
                self.streak[name] = self.ENOUGH if whole else self.streak.get(name, 0) + 1
        new = [name for name in self.found() if name not in self.reported]
        self.reported += new
        return new

    def new_messages(
        self, dead: Sequence[float], step: int, annealing: ThresholdAnnealing, *, whole: bool
    ) -> list[str]:
        """Return a line for each layer to report now, from the shares of dead neurons; many layers share one line."""
        new = self.look(dead, step, whole=whole)
        schedules, thetas = (annealing.schedules(), annealing.thresholds()) if new else ({}, {})
        messages = [
            dead_message(name, self.since[name], thetas[name], schedules[name].final, schedules[name](0))
            for name in new[:MOST_NAMED]
        ]
        return messages if len(new) <= MOST_NAMED else [dead_layers_message(new, messages[0])]

    def found(self) -> list[str]:
        """Return the layers that have been silent for so long that they will probably never fire."""
        return [name for name, streak in self.streak.items() if streak >= self.ENOUGH]

    def go_back(self, dead: Sequence[float]) -> None:
        """Count as silent the layers that were so in an earlier evaluation, and no others."""
        self.streak = {name: self.ENOUGH for name, share in zip(self.names, dead, strict=True) if share >= 1}

    def state(self) -> dict[str, Any]:
        """Return the state that a checkpoint keeps."""
        return {"since": self.since, "streak": self.streak, "reported": self.reported}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load the state that a checkpoint kept."""
        self.since, self.streak = dict(state["since"]), dict(state["streak"])
        self.reported = list(state["reported"])
