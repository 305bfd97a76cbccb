"""Evaluation: how well a network does on a set of samples, and how its neurons fire there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.data.samples import Images, Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.unchanged import evaluation_mode
from bitspike.ops import LIFOutput
from bitspike.train.numerics import as_input
from bitspike.train.tasks import Task, judge_output
from bitspike.train.world import World


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluation on a whole set: the mean loss, and the share of samples that are right.

    `dead` is the share of neurons that never fired, and `spikes` the mean spikes of a sample, of each neuron layer.
    `unanswered` is the share of samples for which no output neuron fired: they have no answer. A last layer whose
    membrane is read never fires: it counts as 0 dead, 0 spikes, and nothing is unanswered.
    """

    loss: float
    accuracy: float
    dead: list[float]
    spikes: list[float]
    samples: int
    correct_by_label: dict[int, tuple[int, int]]  # label: right, all
    unanswered: float = 0.0


def evaluation_batch(asked: int | None, samples: Samples) -> int:
    """Return how many samples to evaluate at once: `asked`, else enough for a busy GPU or few for a small memory."""
    if asked is not None:
        return asked
    return 2048 if isinstance(samples, Images) and samples.labels.is_cuda else 256


def fired(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return which neurons fired for any sample, `[...]`, and the sum of all spikes, from counts `[B, ...]`."""
    alive = counts.amax(0) > 0 if len(counts) else torch.zeros_like(counts.sum(0), dtype=torch.bool)
    return alive, counts.double().sum()


def fired_layers(net: SpikingNetwork, layers: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return `fired` of each layer; a last layer that is read without spikes counts as if all its neurons fired."""
    seen = [fired(counts) for counts in layers]
    if net.readout == "membrane":
        alive, spikes = seen[-1]
        seen[-1] = torch.ones_like(alive), spikes
    return seen


@torch.no_grad()
def evaluate(
    net: SpikingNetwork,
    samples: Samples,
    task: Task,
    *,
    batch: int,
    world: World = World(),  # noqa: B008
    on_batch: Callable[[], object] = lambda: None,
    on_output: Callable[[LIFOutput], object] | None = None,
) -> Evaluation:
    """Evaluate `net`, in evaluation mode, on all samples in order; with several processes, each takes its share.

    `on_output` is given the network's output for each batch.
    """
    device = samples.labels.device
    weight = next(net.parameters())
    back = evaluation_mode(net)
    start, stop = world.share(len(samples))
    sums = torch.zeros(3, dtype=torch.float64, device=device)  # loss, right, unanswered
    alive: list[Tensor] = []
    spikes = torch.zeros(len(net.layers), dtype=torch.float64, device=device)
    right = torch.zeros(len(samples), dtype=torch.float32, device=device)
    try:
        for at in range(start, max(stop, start + 1), batch):  # once without samples, for the shapes of masks
            rows = torch.arange(at, min(at + batch, stop), device=device)
            x, labels = samples.batch(rows)
            observed = net.observe(as_input(x, weight.dtype))
            if len(rows):
                loss, correct_ones = judge_output(net, task, observed.output, labels)
                right[at : at + len(rows)] = correct_ones
                sums[0] += loss.double() * len(rows)
                if on_output is not None:
                    on_output(observed.output)
            layers = observed.counts()
            if net.readout == "spikes":
                sums[2] += (layers[-1].flatten(1).sum(1) == 0).sum()
            seen = fired_layers(net, layers)
            spikes += torch.stack([count for _, count in seen])
            masks = [mask for mask, _ in seen]
            alive = [a | b for a, b in zip(alive, masks, strict=True)] if alive else masks
            on_batch()
    finally:
        back()
    for mask in (alive := [mask.float() for mask in alive]):
        world.max_(mask)
    for total in (sums, spikes, right):
        world.sum_(total)
    sums[1] = right.double().sum()
    awake = torch.stack([mask.mean() for mask in alive]).double()
    # one transfer: each waits for the device
    figures = torch.cat((sums / len(samples), spikes / len(samples), awake)).tolist()
    (loss, accuracy, unanswered), rest, n = figures[:3], figures[3:], len(net.layers)
    return Evaluation(
        loss,
        accuracy,
        [1 - share for share in rest[n:]],
        rest[:n],
        len(samples),
        _by_label(samples.labels.cpu(), right.cpu()),
        unanswered,
    )


def _by_label(labels: Tensor, right: Tensor) -> dict[int, tuple[int, int]]:
    counts, hits = torch.bincount(labels), torch.bincount(labels, right)
    return {
        label: (int(hit), n) for label, (hit, n) in enumerate(zip(hits.tolist(), counts.tolist(), strict=True)) if n
    }
