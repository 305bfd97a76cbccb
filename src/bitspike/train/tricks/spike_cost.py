"""A trick that makes hidden spikes cost something, so that networks learn to fire less."""

from __future__ import annotations

from torch import Tensor

from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.train.config import TrainConfig
from bitspike.train.labels import Labels
from bitspike.train.tricks.trick import Fetch, Trick


class SpikeCost(Trick):
    """`train.spike_cost` times the mean number of hidden spikes of a sample is added to what training minimizes.

    Its gradient is the same number for every hidden spike: spike_cost / batch. The network adds it in the backward pass
    (`net.spike_cost`); the loss that a run reports is without it.
    """

    name = "spike_cost"
    fields = ("spike_cost",)

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return one line that says why the cost would do nothing."""
        if len(net.layers) > 1:
            return None
        return "train.spike_cost is for hidden spikes, but the network has no hidden layer; leave it out"

    def batch(self, fetch: Fetch, rows: Tensor, *, first_row: int, key: Tensor) -> tuple[Tensor, Labels]:
        """Set the cost of hidden spikes for this iteration."""
        self.setup.net.spike_cost = self.setup.config.spike_cost
        return fetch(rows)

    def on_gradients(self, norms: Tensor) -> None:
        """Take the cost away: the backward pass is over."""
        self.setup.net.spike_cost = 0.0
