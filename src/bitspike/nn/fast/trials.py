"""Several networks of one shape as one chain of fused kernels with a trial dimension (ops/trials.py).

Each network keeps its own tensors, thresholds, decays, slopes, dropout and keys, and gets the numbers of a run alone,
bit for bit. `unlike_trials` says why networks are not run so: they must read event counts, without batch norm, delays,
dropout on spikes or learnt decays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bitspike.nn.block import Block
from bitspike.nn.fast import triton as fused
from bitspike.nn.fast.refusal import refused_network
from bitspike.nn.lif import LIF
from bitspike.nn.network import Observed, SpikingNetwork
from bitspike.nn.synapses import BinaryLinear
from bitspike.ops import LIFOutput
from bitspike.ops.dropout.reference import dropped_below

if TYPE_CHECKING:
    from bitspike.ops.chain.triton import Chain, Kept
    from bitspike.ops.trials import TrialNeurons


def unlike_trials(nets: Sequence[SpikingNetwork], x: Tensor) -> str | None:
    """Return why the networks, in training mode, cannot be one chain on inputs like `x [T, B, ...]`; None if they can.

    It does not look at what may differ: weights, thresholds, decays, slopes and the shares of dropout.
    """
    if x.dtype != torch.uint8:
        return "the samples are not event counts"
    for net in nets:
        if not net.training or net._listeners or net.recompute or net.spike_cost:
            return "a network is watched, recomputes layers, or has a cost of spikes"
        if reason := refused_network(net._blocks(), x):
            return reason
        for i, block in enumerate(net._blocks()):
            if reason := _unlike_layer(block):
                return f"layer {i + 1} {reason}"
    if len({tuple(_shape(block) for block in net._blocks()) for net in nets}) > 1:
        return "the networks differ in their layers"
    if len(nets[0].layers) < 2 or _clips_dense_entry(nets[0]):
        return "the network has one layer, or clips the gradients of a first dense layer"
    return None


def _unlike_layer(block: Block) -> str | None:
    """Return why a layer has no trial dimension, beside what fused networks refuse."""
    lif = block.lif
    if block.norm is not None or block.delay is not None:
        return "has a batch norm or delays"
    if block.spike_dropout is not None and block.spike_dropout.active:
        return "drops spikes"
    if type(lif) is not LIF or lif.adaptation is not None or lif.beta.requires_grad or lif.beta.dim():
        return "has other neurons than plain ones with one decay"
    tensors = (lif.beta, lif.theta, lif.theta_grad)
    return None if all(t.dtype == torch.float32 and t.dim() == 0 for t in tensors) else "has other thresholds than one"


def _clips_dense_entry(net: SpikingNetwork) -> bool:
    """Return whether the first layer is dense and clips the gradient of its latent weights."""
    first = net._blocks()[0].synapse
    return isinstance(first, BinaryLinear) and first.clip is not None


def _shape(block: Block) -> tuple[object, ...]:
    """Return what networks of one chain must have in common."""
    synapse = block.synapse
    return (
        type(synapse),
        tuple(synapse.weight.shape),
        synapse.bias is None,
        synapse.clip,
        fused._pool(block),
        block.dropout.layer,
        block.lif.surrogate,
    )


@dataclass(slots=True)
class TrialsOutput:
    """The output of several networks: spikes `[k, T, B, classes]`, and what the backward pass needs."""

    spikes: Tensor
    bits: list[Tensor]  # of each hidden layer, [k * T * B, words]
    x: Tensor
    kept: Kept
    surrogate: Tensor


class TrialNetworks:
    """Networks of one shape as one chain. Their tensors must stay in their places: kernels know them by address.

    `keys` has the dropout key of each network.
    """

    def __init__(self, nets: Sequence[SpikingNetwork], keys: Sequence[Tensor]) -> None:
        self.count = len(nets)
        self._columns = list(zip(*(net._blocks() for net in nets), strict=True))
        self._keys = keys
        self._device = keys[0].device
        self._shape = nets[0].input_shape
        first = nets[0]._blocks()
        shapes = fused._shapes(first, torch.Size(self._shape), None)
        self.grids = fused._grids(first, shapes)
        links = [fused._link(block, fused._source(i, shapes, self.grids)) for i, block in enumerate(first)]
        self._neurons = [self._trial_neurons(column) for column in self._columns]
        hidden = [
            fused._hidden(block, i, grid, link, keys[0])
            for i, (block, grid, link) in enumerate(zip(first, self.grids, links, strict=False))
        ]
        self._hidden = tuple(
            replace(each, neurons=replace(each.neurons, trials=own, dropout=self._dropout(i)))
            for i, (each, own) in enumerate(zip(hidden, self._neurons, strict=False))
        )
        self._links = tuple(
            replace(link, each=own, biases=None if link.bias is None else self._addresses(column, "bias"))
            for link, column in zip(links, self._columns, strict=True)
            for own in (self._addresses(column, "weight"),)
        )

    def _addresses(self, column: Sequence[Block], name: str) -> Tensor:
        """Return the table of addresses of a synapse's tensor in each network."""
        from bitspike.ops.trials import addresses

        return addresses([getattr(block.synapse, name) for block in column])

    def _dropout(self, layer: int) -> float:
        """Return the largest share that any network drops in a layer; with 0 nothing is drawn."""
        return float(max(block.dropout.p for block in self._columns[layer]))

    def _trial_neurons(self, column: Sequence[Block]) -> TrialNeurons:
        from bitspike.ops.trials import TrialNeurons, addresses

        numbers = [[float(block.lif.slope), 1 / (1 - block.dropout.p)] for block in column]
        bounds = [dropped_below(block.dropout.p) for block in column]
        return TrialNeurons(
            addresses([block.lif.beta for block in column]),
            addresses([block.lif.theta for block in column]),
            addresses([block.lif.theta_grad for block in column]),
            addresses(self._keys),
            torch.tensor(numbers, dtype=torch.float32, device=self._device),
            torch.tensor(bounds, dtype=torch.int64, device=self._device),
            None if column[0].synapse.bias is None else self._addresses(column, "bias"),
        )

    def _chain(self, x: Tensor) -> Chain:
        from bitspike.ops.chain.triton import Chain

        return Chain(x.shape[1], x.shape[2], self._hidden, self._links, static=False, trials=self.count)

    @torch.no_grad()
    def forward(self, x: Tensor) -> TrialsOutput:
        """Run all networks on event counts `[k, T, B, ...]` uint8."""
        from bitspike.ops.chain.triton import chain_forward
        from bitspike.ops.dropout.triton import drop_trials
        from bitspike.ops.lif.triton import scan_trials

        entry = x.flatten(0, 1)
        current, bits, kept = chain_forward(self._chain(x), entry, learning=True)
        last, own = len(self._columns) - 1, self._neurons[-1]
        if self._dropout(last):
            current = drop_trials(current, own.key, own.numbers, own.bounds, self._columns[last][0].dropout.layer)
        spikes, surrogate = scan_trials(current, own, self._columns[last][0].lif.surrogate)
        return TrialsOutput(spikes, bits, x, kept, surrogate)

    @torch.no_grad()
    def backward(self, output: TrialsOutput, grad: Tensor) -> list[Tensor]:
        """Return the gradients of all parameters from that of the spikes, which is `[k, B, classes]` at every step.

        There is one tensor for each parameter of a network, in their order, with the trial as its first dimension.
        """
        from bitspike.ops.chain.triton import chain_backward
        from bitspike.ops.dropout.triton import drop_trials
        from bitspike.ops.lif.triton import scan_trials_backward

        last, own = len(self._columns) - 1, self._neurons[-1]
        of_current = scan_trials_backward(grad, output.surrogate, own)
        if self._dropout(last):
            layer = self._columns[last][0].dropout.layer
            of_current = drop_trials(of_current, own.key, own.numbers, own.bounds, layer)
        found = chain_backward(self._chain(output.x), output.kept, output.x.flatten(0, 1), of_current)
        stacked = [g for of in found.links for g in (of.weight, of.bias) if g is not None]
        parameters = [p for column in self._columns for p in column[0].synapse.parameters()]
        return [g.view(self.count, *p.shape) for g, p in zip(stacked, parameters, strict=True)]

    def observed(self, output: TrialsOutput, trial: int) -> Observed:
        """Return the output of one network, and on demand how often its neurons fired."""
        steps = output.spikes.shape[1]
        bits = tuple(each.view(self.count, -1, each.shape[-1])[trial] for each in output.bits)
        hidden = fused.HiddenSpikes(bits, tuple(self.grids), steps)
        return Observed(LIFOutput(output.spikes[trial], None, None), hidden.counts)  # type: ignore[arg-type]
