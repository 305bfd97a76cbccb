"""What is said of every training sample, once, by a trained network or a table: soft targets to learn from."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.unchanged import evaluation_mode
from bitspike.train.losses import spike_count
from bitspike.train.numerics import as_input
from bitspike.train.world import World


@torch.no_grad()
def soft_targets(
    teacher: SpikingNetwork,
    samples: Samples,
    *,
    scale: float = 10.0,
    temperature: float = 1.0,
    batch: int,
    world: World = World(),  # noqa: B008
    on_batch: Callable[[], object] = lambda: None,
) -> Tensor:
    """`[N, C]` float64: softmax(scale * n / T / temperature), n the teacher's spike counts over its T steps.

    In evaluation mode, on the samples as they are, in order, where they are. With several processes each asks about
    its share, and all get the whole table.
    """
    device, weight = samples.labels.device, next(teacher.parameters())
    start, stop = world.share(len(samples))
    back = evaluation_mode(teacher)
    parts: list[Tensor] = []
    try:
        for at in range(start, max(stop, start + 1), batch):  # once without samples, for the number of classes
            rows = torch.arange(at, min(at + batch, stop), device=device)
            x, _ = samples.batch(rows)
            spikes = teacher.observe(as_input(x, weight.dtype)).output.spikes
            parts.append(F.softmax(spike_count(spikes).double() * (scale / len(spikes) / temperature), 1))
            on_batch()
    finally:
        back()
    table = parts[0].new_zeros(len(samples), parts[0].shape[1])
    table[start:stop] = torch.cat(parts)
    return world.sum_(table)


def tempered(probabilities: Tensor, temperature: float) -> Tensor:
    """What softmax would give with logits divided by `temperature`: p^(1/temperature), each row adding up to 1."""
    return F.softmax(probabilities.log() / temperature, 1)
