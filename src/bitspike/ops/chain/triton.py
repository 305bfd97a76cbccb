"""All hidden layers of a network as one autograd function: from the input or the first current to the last current.

A hidden layer keeps for the backward pass its spikes as bits, its surrogate gradient in bfloat16, and with a batch norm
its current in 16 bits. A first layer with a constant current keeps nothing but bits. With `recompute` only the bits are
kept, and the rest is made again layer by layer. Products of the backward pass round their factors to bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitspike.ops.chain.side_stream import SideStream
from bitspike.ops.chain.triton_scan import Neurons, scan_backward, scan_forward, static_backward
from bitspike.ops.first_order import first_order
from bitspike.ops.launch import STORED
from bitspike.ops.norm.triton_integer import Norm, Normalizer, norm_backward, running_normalizer, statistics
from bitspike.ops.product import matmul
from bitspike.ops.product.geometry import WORD, Grid, Synapse
from bitspike.ops.product.triton import Weights, fold, product, source_grad, weight_grad
from bitspike.ops.saved import saved_tensors


@dataclass(frozen=True, slots=True)
class Link:
    """A synapse with its latent weight `[N, C, k, k]`, and a bias if it is dense."""

    synapse: Synapse
    weight: Tensor
    bias: Tensor | None = None
    clip: float | None = None


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
    channels last.
    """

    steps: int
    batch: int
    hidden: tuple[Hidden, ...]
    links: tuple[Link | None, ...]
    static: bool
    recompute: bool = False


class _Record(NamedTuple):
    """The values of a hidden layer that the backward pass needs."""

    bits: Tensor
    surrogate: Tensor | None
    raw: Tensor | None
    normalizer: Normalizer | None


def run_chain(chain: Chain, entry: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the last layer's current `[T, B, N]` float32, and each hidden layer's spikes as bits `[T * B, words]`."""
    tensors = _tensors(chain)
    learning = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (entry, *tensors))
    out = _Chain.apply(chain, learning, entry, *tensors)
    return out[0], out[1:]


def _tensors(chain: Chain) -> list[Tensor | None]:
    """Return all tensors that get gradients or must not change before backward: 2 for a link, 6 for a hidden layer."""
    found: list[Tensor | None] = []
    for link in chain.links:
        found += [None, None] if link is None else [link.weight, link.bias]
    for layer in chain.hidden:
        norm = layer.norm
        found += [None, None] if norm is None else [norm.weight, norm.bias]
        found += [layer.neurons.beta, layer.neurons.theta, layer.neurons.center, layer.neurons.key]
    return found


@first_order
class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, chain: Chain, learning: bool, entry: Tensor, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        source, records, bits = entry, [], []
        folded = [None if link is None else _prepared(link, i == 0) for i, link in enumerate(chain.links)]
        if isinstance(folded[0], Tensor):
            source = matmul.rows(entry, folded[0].shape[1])
        ctx.rows = source  # of the first product, where it is not the entry itself
        for i in range(len(chain.hidden)):
            record = _forward(chain, i, source, folded[i], save=learning and not chain.recompute)
            source = record.bits
            bits.append(source)
            records.append(_Record(source, None, None, None) if chain.recompute or not learning else record)
        current = _last(chain, source, folded[-1])
        ctx.chain, ctx.records, ctx.folded = chain, records, folded
        ctx.save_for_backward(entry, *tensors)
        ctx.mark_non_differentiable(*bits)
        ctx.set_materialize_grads(False)
        return current, *bits

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        entry = saved_tensors(ctx)[0]  # raises if anything was overwritten since
        chain: Chain = ctx.chain
        if ctx.records is None:
            raise RuntimeError("the fused network keeps nothing for a second backward pass; run it forward again")
        records, folded = ctx.records, ctx.folded
        ctx.records = ctx.folded = None
        of_links: list[list[Tensor | None]] = [[None, None] for _ in chain.links]
        of_layers: list[list[Tensor | None]] = [[None] * 6 for _ in chain.hidden]
        of_entry = None
        side = SideStream(entry.device)
        if grads[0] is not None:
            grad = grads[0].contiguous().view(chain.steps * chain.batch, -1)
            for i in reversed(range(len(chain.hidden))):
                record = records.pop()
                if chain.recompute:
                    source = records[-1].bits if records else ctx.rows
                    record = _forward(_untracked(chain), i, source, folded[i], save=True)
                spikes = _through_link(chain, i + 1, grad, record.bits, folded[i + 1], of_links, side)
                grad = _through_neurons(chain, i, spikes, record, entry, of_links, of_layers)
                del record, spikes
            first = chain.links[0]
            if first is None:
                of_entry = grad.view_as(entry).to(entry.dtype)
            else:
                if not chain.hidden and first.bias is not None:
                    of_links[0][1] = grad.sum(0)
                of_links[0][0] = _entry_weight_grad(first, grad, ctx.rows, folded[0])
        side.join()
        ctx.rows = None
        wanted = ctx.needs_input_grad[3:]
        found = [g for pair in of_links for g in pair] + [g for six in of_layers for g in six]
        return None, None, of_entry, *(g if want else None for g, want in zip(found, wanted, strict=True))


def _prepared(link: Link, entry: bool) -> Weights | Tensor:
    if entry and matmul.takes(link.synapse):
        return matmul.signs(link.weight.flatten(1), _columns(link))
    return fold(link.weight, link.synapse, counts=entry)


def _columns(link: Link) -> int:
    return -(-link.synapse.channels // WORD) * WORD


def _untracked(chain: Chain) -> Chain:
    """Return the chain without running averages, which must not move again when layers are run a second time."""
    hidden = (
        h if h.norm is None or h.use_running else replace(h, norm=replace(h.norm, running=None)) for h in chain.hidden
    )
    return replace(chain, hidden=tuple(hidden))


def _forward(chain: Chain, i: int, source: Tensor, folded: Any, *, save: bool) -> _Record:
    """Run hidden layer i on the spikes of the layer before it (or on the entry)."""
    layer, link = chain.hidden[i], chain.links[i]
    grid = layer.neurons.grid
    static = chain.static and i == 0
    raw = source if link is None else _raw(link, source, folded, grid)
    normalizer = None
    if layer.norm is not None:
        if layer.use_running:
            normalizer = running_normalizer(layer.norm)
        else:
            shaped = raw.view(chain.steps, -1, grid.stride)
            normalizer = statistics(shaped, grid, layer.neurons.quotient, layer.norm)
    bits, surrogate = scan_forward(
        raw, layer.neurons, chain.steps, chain.batch, normalizer, static=static, save=save and not static
    )
    kept = raw if save and normalizer is not None else None
    return _Record(bits, surrogate, kept, normalizer)


def _raw(link: Link, source: Tensor, folded: Any, grid: Grid) -> Tensor:
    """Return the layer's raw current, whole numbers `[rows, height, width, stride]`, in 16 bits where that fits."""
    if isinstance(folded, Tensor):
        return matmul.product(source, folded)
    rows = source.shape[0] * source.shape[1] if source.dtype == torch.uint8 else source.shape[0]
    fits = source.dtype != torch.uint8 and link.synapse.bound < 2**15
    out = torch.empty(
        rows, grid.height, grid.width, grid.stride, dtype=torch.int16 if fits else torch.float32, device=source.device
    )
    return product(source.view(rows, -1), folded, link.synapse, out)


def _last(chain: Chain, source: Tensor, folded: Any) -> Tensor:
    link = chain.links[-1]
    if link is None:
        raise ValueError("run_chain: the last link must be a synapse")
    shape = (chain.steps, chain.batch, link.synapse.channels)
    if isinstance(folded, Tensor):
        out = matmul.product(source, folded)[:, : shape[-1]]
        return (out if link.bias is None else out + link.bias).view(shape)
    out = torch.empty(chain.steps * chain.batch, shape[-1], dtype=torch.float32, device=source.device)
    product(source.view(len(out), -1), folded, link.synapse, out, bias=link.bias, divide=link.synapse.pool > 1)
    return out.view(shape)


def _through_link(
    chain: Chain, i: int, grad: Tensor, bits: Tensor, folded: Any, of_links: list[list[Tensor | None]], side: SideStream
) -> Tensor:
    """Return the gradient `[rows, neurons]` bfloat16 of the spikes before link i; write the weight's to `of_links`."""
    link = chain.links[i]
    if link is None or isinstance(folded, Tensor):
        raise ValueError("run_chain: only the first link may lead from the input")
    scale = 1.0 / link.synapse.pool**2
    source = link.synapse.source
    last = i == len(chain.links) - 1  # other biases are added, and their gradients summed, with the neurons
    with side.queue(grad, bits):  # the gradient of the weight is not waited for on the way down
        of_links[i][0], of_bias = weight_grad(
            grad, bits, link.weight, link.synapse, scale, link.clip, bias=last and link.bias is not None
        )
    if last:
        of_links[i][1] = of_bias
    out = torch.empty(bits.shape[0], source.neurons, dtype=STORED, device=grad.device)
    return source_grad(grad.view(-1, grad.shape[-1]), folded, link.synapse, scale, out)


def _through_neurons(
    chain: Chain,
    i: int,
    grad: Tensor,
    record: _Record,
    entry: Tensor,
    of_links: list[list[Tensor | None]],
    of_layers: list[list[Tensor | None]],
) -> Tensor:
    """Return the gradient of hidden layer i's current, as rows of channels."""
    layer = chain.hidden[i]
    if chain.static and i == 0:
        return static_backward(entry, grad, layer.neurons, chain.steps)
    if record.surrogate is None:
        raise ValueError("run_chain: the surrogate was not kept")
    out, of_bias = scan_backward(grad, record.surrogate, layer.neurons)
    of_links[i][1] = of_bias
    stride = layer.neurons.grid.stride
    if layer.norm is not None and record.raw is not None and record.normalizer is not None:
        raw = record.raw.view(chain.steps, -1, stride)
        out, of_weight, of_shift = norm_backward(
            out, raw, record.normalizer, layer.norm, layer.neurons.grid, layer.neurons.quotient
        )
        of_layers[i][:2] = of_weight, of_shift
    return out.view(-1, stride)


def _entry_weight_grad(link: Link, grad: Tensor, entry: Tensor, folded: Any) -> Tensor:
    if isinstance(folded, Tensor):
        return matmul.weight_grad(grad, entry, link.weight, link.clip)
    source = entry.view(entry.shape[0] * entry.shape[1], -1)
    return weight_grad(grad, source, link.weight, link.synapse, 1.0 / link.synapse.pool**2, link.clip)[0]
