"""The activity of a network: a histogram of how often the neurons of each layer fire, and how many never fire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bitspike.nn import SpikingNetwork
from bitspike.nn.unchanged import evaluation_mode


@dataclass(frozen=True, slots=True)
class LayerActivity:
    """The activity of one layer: `histogram[i]` neurons fire in i/bins to (i+1)/bins of the steps.

    `dead` is the share of neurons that fired for no sample (they are in the first bin); `spikes` those of a neuron for
    a sample, on average.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.activity import layer_activity
        >>> layer = layer_activity("layers.0.lif", torch.tensor([0.0, 0.0, 2.0, 6.0]), steps=10, bins=5)
        >>> layer.neurons, layer.dead, layer.spikes
        (4, 0.5, 2.0)
    """

    name: str
    neurons: int
    dead: float
    spikes: float
    histogram: list[int]


def layer_activity(name: str, counts: Tensor, steps: int, bins: int) -> LayerActivity:
    """Return a layer's activity from `counts`, the mean spikes of each neuron for a sample (0: it never fired).

    Examples:
        >>> import torch
        >>> from bitspike.analysis.activity import layer_activity
        >>> counts = torch.tensor([0.0, 0.0, 2.0, 6.0])  # spikes of four neurons for a sample, on average
        >>> layer_activity("layers.0.lif", counts, steps=10, bins=5).histogram
        [2, 1, 0, 1, 0]
    """
    flat = counts.double().flatten().cpu()
    place = (flat * (bins / steps)).long().clamp(0, bins - 1)
    return LayerActivity(
        name,
        len(flat),
        (flat == 0).double().mean().item(),
        flat.mean().item(),
        torch.bincount(place, minlength=bins).tolist(),
    )


@torch.no_grad()
def measure_activity(net: SpikingNetwork, batches: Iterable[Tensor], *, steps: int, bins: int) -> list[LayerActivity]:
    """Return the activity of every layer, in evaluation mode, over batches of inputs shown for `steps`.

    A last layer whose membrane is read never fires, and is left out.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> from bitspike.analysis.activity import measure_activity
        >>> net = bitspike.build("20-10-5")
        >>> layers = measure_activity(net, [torch.rand(50, 4, 20)], steps=50, bins=10)
        >>> [(layer.name, layer.neurons, sum(layer.histogram)) for layer in layers]
        [('layers.0.lif', 10, 10), ('layers.1.lif', 5, 5)]
    """
    back = evaluation_mode(net)
    sums: list[Tensor] = []
    samples = 0
    try:
        for x in batches:
            counted = net.observe(x).counts()
            totals = [counts.double().sum(0) for counts in counted]
            sums = [a + b for a, b in zip(sums, totals, strict=True)] if sums else totals
            samples += len(counted[-1])
    finally:
        back()
    if not samples:
        raise ValueError("measure_activity: needs a sample at least, but the batches hold none")
    layers = list(zip(net.neuron_names(), sums, strict=True))
    if net.readout == "membrane":
        layers.pop()
    return [layer_activity(name, total / samples, steps, bins) for name, total in layers]


def as_layer(values: Any) -> LayerActivity:
    """Return a layer's activity from a table that was read from JSON."""
    return LayerActivity(
        str(values["name"]),
        int(values["neurons"]),
        float(values["dead"]),
        float(values["spikes"]),
        [int(count) for count in values["histogram"]],
    )
