"""A trick that makes hidden spikes cost something, so that networks learn to fire less."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from bitspike.nn import Block
from bitspike.ops import LIFOutput
from bitspike.train.labels import Labels
from bitspike.train.tricks.trick import Fetch, Setup, Trick


class SpikeCost(Trick):
    """`train.spike_cost` times the mean number of hidden spikes of a sample is added to what training minimizes.

    Its gradient is the same number for every hidden spike: spike_cost / batch. It is added in the backward pass; the
    loss that a run reports is without it. Hooks do it, so on a GPU layers run one by one in training.
    """

    name = "spike_cost"
    fields = ("spike_cost",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.hooks: list[RemovableHandle] = []

    def batch(self, fetch: Fetch, rows: Tensor, *, first_row: int, key: Tensor) -> tuple[Tensor, Labels]:
        """Attach the cost to hidden layers for this iteration; evaluations have none."""
        self._detach()
        hidden: list[nn.Module] = list(self.setup.net.layers)[:-1]
        self.hooks = [layer.register_forward_hook(self._charge) for layer in hidden]
        return fetch(rows)

    def on_gradients(self, norms: Tensor) -> None:
        """Detach the cost: the backward pass is over."""
        self._detach()

    def _detach(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.hooks = []

    def _charge(self, layer: Block, given: Any, output: LIFOutput) -> None:
        """Add the cost to the gradient of a layer's spikes `[T, B, ...]`, as soon as there is one."""
        shard = layer.dropout.shard
        rows = output.spikes.shape[1] if shard is None else shard.total
        if output.spikes.requires_grad and rows:
            samples = rows / self.setup.net.glances  # a row of an image is one glance at it
            output.spikes.register_hook(partial(_add, self.setup.config.spike_cost / samples))


def _add(cost: float, gradient: Tensor) -> Tensor:
    return gradient + cost
