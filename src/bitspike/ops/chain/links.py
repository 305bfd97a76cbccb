"""The synapses of a chain: their products forward, and the gradients of spikes, weights and biases backward.

Spikes reach a synapse as bits. Behind a spike filter (delays, gains, or dropout on spikes) they come as rows of real
numbers in two halves of float16, and products are those of the GPU's own library; an input of event counts takes that
way too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bitspike.ops.chain.side_stream import SideStream
from bitspike.ops.filter import triton as filters
from bitspike.ops.filter.spike_filter import SpikeFilter
from bitspike.ops.launch import INTERPRETED, STORED
from bitspike.ops.product import matmul
from bitspike.ops.product.geometry import WORD, Grid, Synapse, padded
from bitspike.ops.product.triton import Weights, fits_bytes, fold, product, source_grad, weight_grad


@dataclass(frozen=True, slots=True)
class Link:
    """A synapse with its latent weight `[N, C, k, k]`, a bias if it is dense, and the filter of spikes before it."""

    synapse: Synapse
    weight: Tensor
    bias: Tensor | None = None
    clip: float | None = None
    spike_filter: SpikeFilter | None = None

    @property
    def real(self) -> bool:
        """Whether the raw current is real numbers, not whole ones."""
        return self.halves > 1

    @property
    def halves(self) -> int:
        """How many numbers rows have for each presynaptic neuron (`SpikeFilter.halves`)."""
        return 1 if self.spike_filter is None else self.spike_filter.halves

    @property
    def learns_delays(self) -> bool:
        """Whether the delays of the filter get a gradient."""
        found = self.spike_filter
        return found is not None and found.delays is not None and found.delays.requires_grad

    @property
    def learns_gains(self) -> bool:
        """Whether the gains of the filter get a gradient."""
        found = self.spike_filter
        return found is not None and found.gains is not None and found.gains.requires_grad


class LinkGrads(NamedTuple):
    """The gradients of a link's parameters."""

    weight: Tensor | None = None
    bias: Tensor | None = None
    delays: Tensor | None = None
    gains: Tensor | None = None


def prepared(link: Link, *, entry: bool, last: bool) -> Weights | Tensor:
    """Return the signs as products take them; a matrix `[N padded, K padded]` if they take rows.

    The last link's current is real numbers, which may be NaN: its signs are not bytes.
    """
    filtered = link.spike_filter is not None
    if filtered or (entry and matmul.takes(link.synapse)):
        kind = filters.ROWS if filtered else torch.bfloat16
        return matmul.signs(link.weight.flatten(1), padded(link.synapse.channels, WORD), kind, link.halves)
    return fold(link.weight, link.synapse, counts=entry, whole=not (entry or last) and fits_bytes(link.synapse))


def entry_rows(link: Link, counts: Tensor, signs: Tensor) -> Tensor:
    """Return event counts `[T, B, ...]` after the link's filter as rows that fit its `signs`."""
    wide = signs.shape[1] // link.halves
    if link.spike_filter is None:
        return matmul.rows(counts, wide)
    return filters.rows(counts.flatten(2), link.spike_filter, wide)


def raw_current(link: Link, source: Tensor, folded: Weights | Tensor, grid: Grid) -> Tensor:
    """Return a layer's raw current `[rows, height, width, stride]`; whole numbers are in 16 bits where that fits."""
    if isinstance(folded, Tensor):
        return matmul.product(source, folded)
    rows = source.shape[0] * source.shape[1] if source.dtype == torch.uint8 else source.shape[0]
    fits = source.dtype != torch.uint8 and link.synapse.bound < 2**15
    out = torch.empty(
        rows, grid.height, grid.width, grid.stride, dtype=torch.int16 if fits else torch.float32, device=source.device
    )
    return product(source.view(rows, -1), folded, link.synapse, out)


def last_current(link: Link, source: Tensor, folded: Weights | Tensor, *, padding: bool = False) -> Tensor:
    """Return the last layer's current `[T * B, N]` float32, with its bias; `padding` may leave zeros behind rows."""
    if isinstance(folded, Tensor):
        whole = matmul.product(source, folded)
        out = whole if padding else whole[:, : link.synapse.channels]
        return out if link.bias is None else out + link.bias
    rows = source.shape[0] * source.shape[1] if source.dtype == torch.uint8 else source.shape[0]
    out = torch.empty(rows, link.synapse.channels, dtype=torch.float32, device=source.device)
    return product(source.view(rows, -1), folded, link.synapse, out, bias=link.bias, divide=link.synapse.pool > 1)


def through_link(
    link: Link | None, grad: Tensor, source: Tensor, folded: Weights | Tensor, side: SideStream, *, last: bool
) -> tuple[Tensor, LinkGrads]:
    """Return the gradient `[rows, neurons]` bfloat16 of the bits or rows before a link, and those of its parameters.

    The gradient of the weight is not waited for on the way down.
    """
    if link is None:
        raise ValueError("run_chain: only the first link may be left out")
    sums = last and link.bias is not None  # other biases are added, and their gradients summed, with the neurons
    grad = grad.view(-1, grad.shape[-1])
    if isinstance(folded, Tensor):
        of_bias = grad.sum(0) if sums else None
        grad = grad.to(STORED)
        with side.queue(grad, source):
            of_weight = matmul.weight_grad(grad, _numbers(link, source), link.weight, link.clip)
        return matmul.source_grad(grad, _first_half(link, folded)), LinkGrads(of_weight, of_bias)
    scale = 1.0 / link.synapse.pool**2
    with side.queue(grad, source):
        of_weight, of_bias = weight_grad(grad, source, link.weight, link.synapse, scale, link.clip, bias=sums)
    out = torch.empty(source.shape[0], link.synapse.source.neurons, dtype=STORED, device=grad.device)
    return source_grad(grad, folded, link.synapse, scale, out), LinkGrads(of_weight, of_bias)


def _first_half(link: Link, rows: Tensor) -> Tensor:
    """Return rows or signs without their second half."""
    return rows[:, : rows.shape[1] // link.halves]


def _numbers(link: Link, rows: Tensor) -> Tensor:
    """Return the numbers of rows for a product of the backward pass; rounding to bfloat16 would lose their rests."""
    first = _first_half(link, rows)
    if INTERPRETED and link.halves > 1:
        return first.float() + rows[:, first.shape[1] :].float() / 2**11
    return first


def through_entry(
    link: Link, grad: Tensor, counts: Tensor, rows: Tensor, folded: Weights | Tensor, *, last: bool
) -> LinkGrads:
    """Return the gradients of the first link's parameters; event counts get none. `rows` is what its product took."""
    of_bias = grad.sum(0) if last and link.bias is not None else None
    if not isinstance(folded, Tensor):
        source = rows.view(rows.shape[0] * rows.shape[1], -1)
        scale = 1.0 / link.synapse.pool**2
        return LinkGrads(weight_grad(grad, source, link.weight, link.synapse, scale, link.clip)[0], of_bias)
    of_weight, of_filter = matmul.weight_grad(grad, _numbers(link, rows), link.weight, link.clip), filters.FilterGrads()
    if link.spike_filter is not None and (link.learns_delays or link.learns_gains):
        of_rows = matmul.source_grad(grad.to(STORED), _first_half(link, folded))
        wanted = {"of_delays": link.learns_delays, "of_gains": link.learns_gains}
        _, of_filter = filters.filter_backward(
            of_rows, counts.flatten(2), link.spike_filter, of_rows.shape[-1], of_x=False, **wanted
        )
    return LinkGrads(of_weight, of_bias, *of_filter)
