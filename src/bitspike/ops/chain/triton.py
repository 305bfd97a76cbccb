"""All hidden layers of a network as one autograd function: from the input or the first current to the last current.

A hidden layer keeps for the backward pass its spikes as bits, its surrogate gradient in bfloat16, and with a batch norm
its current in 16 bits (32 bits behind a spike filter, whose rows are kept too). A first layer with a constant
current keeps nothing but bits. With `recompute` only bits and rows are kept, and the rest is made again layer by layer.
Products of the backward pass round their factors to bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitspike.ops.chain.links import (
    Link,
    LinkGrads,
    entry_rows,
    last_current,
    prepared,
    raw_current,
    through_entry,
    through_link,
)
from bitspike.ops.chain.side_stream import SideStream
from bitspike.ops.chain.triton_scan import Neurons, Scanned, scan_backward, scan_forward, static_backward
from bitspike.ops.first_order import first_order
from bitspike.ops.launch import STORED
from bitspike.ops.norm.triton_integer import (
    Norm,
    Normalizer,
    norm_backward,
    normalized,
    running_normalizer,
    statistics,
)
from bitspike.ops.product.geometry import Grid
from bitspike.ops.saved import saved_tensors


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hidden layer: its neurons, and the batch norm before them. `use_running` normalizes as in evaluation."""

    neurons: Neurons
    norm: Norm | None = None
    use_running: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """The hidden layers of a network: `links[i]` leads into hidden layer i, the last link to the output.

    links[0] is None if the chain begins with layer 0's current: `[B, C, H, W]` if `static`, else `[T, B, neurons]` with
    channels last. `last_norm` is the batch norm of the output's current. The backward pass adds `spike_cost` to the
    gradient of every hidden spike.
    """

    steps: int
    batch: int
    hidden: tuple[Hidden, ...]
    links: tuple[Link | None, ...]
    static: bool
    recompute: bool = False
    last_norm: Norm | None = None
    last_uses_running: bool = False
    spike_cost: float = 0.0


class _Record(NamedTuple):
    """The values of a layer that the backward pass needs; the last layer has no neurons here."""

    scanned: Scanned | None
    raw: Tensor | None = None
    normalizer: Normalizer | None = None

    @property
    def source(self) -> Tensor:
        """The spikes as the next link takes them: rows, or bits."""
        if self.scanned is None:
            raise ValueError("run_chain: a layer without neurons has no spikes")
        return self.scanned.bits if self.scanned.rows is None else self.scanned.rows

    def only_spikes(self, norm: Norm | None) -> _Record:
        """Return the record without what can be made again; statistics of several processes stay, few as they are."""
        kept = self.normalizer if _exchanges(norm) else None
        return _Record(None if self.scanned is None else Scanned(self.scanned.bits, self.scanned.rows), None, kept)


def run_chain(chain: Chain, entry: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the last layer's current `[T, B, N]` float32, and each hidden layer's spikes as bits `[T * B, words]`."""
    tensors = _tensors(chain)
    learning = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (entry, *tensors))
    out = _Chain.apply(chain, learning, entry, *tensors)
    return out[0], out[1:]


class Kept(NamedTuple):
    """Values that a forward pass keeps for the backward pass; `rows` is what the first product took."""

    rows: Tensor
    records: list[_Record]
    folded: list[Any]
    last: _Record


def chain_forward(chain: Chain, entry: Tensor, *, learning: bool) -> tuple[Tensor, list[Tensor], Kept]:
    """Return the last layer's current, the hidden layers' spikes as bits, and what the backward pass needs."""
    source, records, bits = entry, [], []
    last_link = len(chain.links) - 1
    folded = [
        None if link is None else prepared(link, entry=i == 0, last=i == last_link)
        for i, link in enumerate(chain.links)
    ]
    first = chain.links[0]
    if first is not None and isinstance(folded[0], Tensor):
        source = entry_rows(first, entry, folded[0])
    rows = source
    for i in range(len(chain.hidden)):
        record = _forward(chain, i, source, folded[i], save=learning and not chain.recompute)
        if record.scanned is not None:
            bits.append(record.scanned.bits)
        source = record.source
        forgets = chain.recompute or not learning
        records.append(record.only_spikes(chain.hidden[i].norm) if forgets else record)
    current, last = _last(chain, source, folded[-1])
    return current, bits, Kept(rows, records, folded, last)


def chain_backward(chain: Chain, kept: Kept, entry: Tensor, grad: Tensor) -> Found:
    """Return the gradients from that of the last layer's current; what was kept is used up."""
    found, side = Found(chain), SideStream(entry.device)
    records, folded = kept.records, kept.folded
    grad, found.last = _through_last_norm(chain, grad.contiguous(), kept.last)
    for i in reversed(range(len(chain.hidden))):
        record = records.pop()
        if chain.recompute:
            source = records[-1].source if records else kept.rows
            record = _forward(_untracked(chain), i, source, folded[i], save=True, known=record.normalizer)
        last_link = i == len(chain.hidden) - 1
        spikes, of = through_link(chain.links[i + 1], grad, record.source, folded[i + 1], side, last=last_link)
        found.add(i + 1, of)
        if _exchanges(chain.hidden[i].norm):
            side.join()  # a recording is cut where processes exchange, and no stream may be left open
        grad = _through_neurons(chain, i, spikes, record, entry, found)
        del record, spikes
    first = chain.links[0]
    if first is None:
        found.entry = grad.view_as(entry).to(entry.dtype)
    else:
        found.add(0, through_entry(first, grad, entry, kept.rows, folded[0], last=not chain.hidden))
    side.join()
    return found


_OF_LINK, _OF_LAYER = 5, 6  # tensors of a link and of a hidden layer, in `_tensors`


def _tensors(chain: Chain) -> list[Tensor | None]:
    """Return all tensors that get gradients or must not change before backward, those of the last norm at the end."""
    found: list[Tensor | None] = []
    for link in chain.links:
        passed = None if link is None else link.spike_filter
        found += [None, None] if link is None else [link.weight, link.bias]
        found += [None, None, None] if passed is None else [passed.delays, passed.gains, passed.width]
    for layer in chain.hidden:
        neurons = layer.neurons
        found += _parameters(layer.norm)
        found += [neurons.beta, neurons.theta, neurons.center, neurons.key]
    return found + _parameters(chain.last_norm)


def _parameters(norm: Norm | None) -> list[Tensor | None]:
    return [None, None] if norm is None else [norm.weight, norm.bias]


@first_order
class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, chain: Chain, learning: bool, entry: Tensor, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        current, bits, ctx.kept = chain_forward(chain, entry, learning=learning)
        ctx.chain = chain
        ctx.save_for_backward(entry, *tensors)
        ctx.mark_non_differentiable(*bits)
        ctx.set_materialize_grads(False)
        return current, *bits

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        entry = saved_tensors(ctx)[0].contiguous()  # raises if anything was overwritten since
        chain: Chain = ctx.chain
        if ctx.kept is None:
            raise RuntimeError("the fused network keeps nothing for a second backward pass; run it forward again")
        kept, ctx.kept = ctx.kept, None
        found = Found(chain) if grads[0] is None else chain_backward(chain, kept, entry, grads[0])
        wanted = ctx.needs_input_grad[3:]
        return None, None, found.entry, *(g if want else None for g, want in zip(found.all(), wanted, strict=True))


class Found:
    """The gradients that a backward pass has found so far, in the order of `_tensors`."""

    def __init__(self, chain: Chain) -> None:
        self.entry: Tensor | None = None
        self.links = [LinkGrads() for _ in chain.links]
        self.layers: list[list[Tensor | None]] = [[None] * _OF_LAYER for _ in chain.hidden]
        self.last: list[Tensor | None] = [None, None]

    def add(self, i: int, more: LinkGrads) -> None:
        """Add gradients of link i to those found before."""
        self.links[i] = LinkGrads(*(old if new is None else new for old, new in zip(self.links[i], more, strict=True)))

    def all(self) -> list[Tensor | None]:
        """Return the gradients of all tensors but the entry."""
        of_links: list[Tensor | None] = [g for of in self.links for g in (*of, *[None] * (_OF_LINK - len(of)))]
        return of_links + [g for of in self.layers for g in of] + self.last


def _untracked(chain: Chain) -> Chain:
    """Return the chain without running averages, which must not move again when layers are run a second time."""
    hidden = (
        h if h.norm is None or h.use_running else replace(h, norm=replace(h.norm, running=None)) for h in chain.hidden
    )
    return replace(chain, hidden=tuple(hidden))


def _exchanges(norm: Norm | None) -> bool:
    return norm is not None and norm.across is not None


def _forward(
    chain: Chain, i: int, source: Tensor, folded: Any, *, save: bool, known: Normalizer | None = None
) -> _Record:
    """Run hidden layer i on the spikes of the layer before it (or on the entry); its normalizer may be `known`."""
    layer, link, after = chain.hidden[i], chain.links[i], chain.links[i + 1]
    grid = layer.neurons.grid
    static = chain.static and i == 0
    raw = source if link is None else raw_current(link, source, folded, grid)
    normalizer = known
    if layer.norm is not None and known is None:
        shaped = raw.view(chain.steps, -1, grid.stride)
        real = link is not None and link.real
        normalizer = _normalizer(layer.norm, layer.use_running, shaped, grid, layer.neurons.quotient, real)
    scanned = scan_forward(
        raw, layer.neurons, chain.steps, chain.batch, normalizer, None if after is None else after.spike_filter,
        static=static, save=save and not static,
    )  # fmt: skip
    kept = raw if save and normalizer is not None else None
    return _Record(scanned, kept, normalizer)


def _normalizer(norm: Norm, use_running: bool, raw: Tensor, grid: Grid, quotient: int, real: bool) -> Normalizer:
    return running_normalizer(norm) if use_running else statistics(raw, grid, quotient, norm, real=real)


def _last(chain: Chain, source: Tensor, folded: Any) -> tuple[Tensor, _Record]:
    """Return the last layer's current `[T, B, N]`, normalized if it has a batch norm, and a record for backward."""
    link, norm = chain.links[-1], chain.last_norm
    if link is None:
        raise ValueError("run_chain: the last link must be a synapse")
    shape = (chain.steps, chain.batch, link.synapse.channels)
    if norm is None:
        return last_current(link, source, folded).view(shape), _Record(None)
    raw = last_current(link, source, folded, padding=True).view(chain.steps, chain.batch, -1)
    grid = Grid(shape[-1], stride=raw.shape[-1], dense=True)
    normalizer = _normalizer(norm, chain.last_uses_running, raw, grid, 1, link.real)
    return normalized(raw, grid, normalizer), _Record(None, raw, normalizer)


def _through_last_norm(chain: Chain, grad: Tensor, last: _Record) -> tuple[Tensor, list[Tensor | None]]:
    """Return the gradient `[T * B, >= N]` of the last raw current, and those of the norm's weight and bias."""
    if chain.last_norm is None or last.raw is None or last.normalizer is None:
        return grad.view(-1, grad.shape[-1]), [None, None]
    out = torch.empty(last.raw.shape, dtype=STORED, device=grad.device)
    grid = Grid(grad.shape[-1], stride=out.shape[-1])
    _, *of_norm = norm_backward(grad, last.raw, last.normalizer, chain.last_norm, grid, 1, out)
    return out.view(-1, out.shape[-1]), [*of_norm]


def _through_neurons(chain: Chain, i: int, grad: Tensor, record: _Record, entry: Tensor, found: Found) -> Tensor:
    """Return the gradient of hidden layer i's current, as rows of channels."""
    layer, after = chain.hidden[i], chain.links[i + 1]
    spike_filter = None if after is None else after.spike_filter
    of_gains = after is not None and after.learns_gains
    if chain.static and i == 0:
        out, of_filter = static_backward(
            entry, grad, layer.neurons, chain.steps, spike_filter, of_gains=of_gains, spike_cost=chain.spike_cost
        )
        found.add(1, LinkGrads(gains=of_filter.gains))
        return out
    if record.scanned is None:
        raise ValueError("run_chain: the surrogate was not kept")
    of_delays = after is not None and after.learns_delays
    out, of_bias, of_beta, of_filter = scan_backward(
        grad, record.scanned, layer.neurons, spike_filter,
        of_delays=of_delays, of_gains=of_gains, spike_cost=chain.spike_cost,
    )  # fmt: skip
    found.add(i, LinkGrads(bias=of_bias))
    found.add(i + 1, LinkGrads(delays=of_filter.delays, gains=of_filter.gains))
    stride = layer.neurons.grid.stride
    if layer.norm is not None and record.raw is not None and record.normalizer is not None:
        raw = record.raw.view(chain.steps, -1, stride)
        out, *of_norm = norm_backward(
            out, raw, record.normalizer, layer.norm, layer.neurons.grid, layer.neurons.quotient, out
        )
        found.layers[i][:2] = of_norm
    found.layers[i][2] = of_beta
    return out.view(-1, stride)
