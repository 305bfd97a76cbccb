"""The scan of a hidden layer from its raw current to bits, and its backward pass, with the kernels of kernels.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bitspike.ops.chain import kernels
from bitspike.ops.dropout.reference import dropped_below
from bitspike.ops.filter.spike_filter import SpikeFilter
from bitspike.ops.filter.triton import ROWS, FilterGrads, filter_grads
from bitspike.ops.launch import STORED, at_once, on
from bitspike.ops.lif.surrogate import Surrogate
from bitspike.ops.norm.triton_integer import Normalizer
from bitspike.ops.product.geometry import WORD, Grid


@dataclass(frozen=True, slots=True)
class Neurons:
    """The neurons of a hidden layer: grid, thresholds and decay, and the quotient, bias and dropout before them."""

    grid: Grid
    beta: Tensor
    theta: Tensor
    center: Tensor
    slope: float
    surrogate: Surrogate
    quotient: int = 1  # the raw current is this many times the current
    bias: Tensor | None = None
    dropout: float = 0.0
    key: Tensor | None = None
    layer: int = 0
    first_row: int = 0  # of the whole batch, if it lies in several processes: masks are drawn for its rows

    def dropout_arguments(self) -> dict[str, float | int]:
        """Return the kernels' arguments for dropout."""
        return {"below": dropped_below(self.dropout), "keep": 1 / (1 - self.dropout), "first_row": self.first_row}


class Scanned(NamedTuple):
    """The spikes of a hidden layer, and what its backward pass needs: `[T, B, neurons]` in bfloat16."""

    bits: Tensor  # [T * B, words]
    rows: Tensor | None = None  # [T * B, halves * neurons]: the spikes after the filter of the next synapse, if any
    surrogate: Tensor | None = None
    before: Tensor | None = None  # u[t-1], if the decay is learnt


def _blocks(total: int, taps: int = 1) -> tuple[int, int]:
    """Return the neurons of a program and its warps: few for each thread, since other threads hide a step's latency.

    Taps of a delay take registers, so that each thread has one neuron.
    """
    return at_once(WORD if total < 132 * 256 or taps > 1 else 2 * WORD), 1


def _most_registers(taps: int) -> int | None:
    """Return how many registers a thread of the backward scan may take, so that twice as many threads run at once.

    Each tap takes three; without a bound the compiler takes more than it needs (165 for 26 taps).
    """
    return 128 if 1 < taps <= 26 else None


def _shared(neurons: Neurons) -> dict[str, int]:
    grid = neurons.grid
    return {
        "NEURONS": grid.neurons, "STRIDE": grid.stride, "CHANNELS": grid.channels, "LAYER": neurons.layer,
        "PER_NEURON": neurons.beta.numel() > 1,
    }  # fmt: skip


def _filter_tensors(spike_filter: SpikeFilter | None, nothing: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return delays, width and gains of a filter as kernels take them; `nothing` stands for those that it lacks."""
    if spike_filter is None:
        return nothing, nothing, nothing
    gains = nothing if spike_filter.gains is None else spike_filter.gains
    if spike_filter.delays is None or spike_filter.taps == 1:
        return nothing, nothing, gains
    if spike_filter.width is None:
        return spike_filter.whole_delays(), nothing, gains
    return spike_filter.delays, spike_filter.width, gains


def _largest_gain(spike_filter: SpikeFilter | None) -> int:
    return 0 if spike_filter is None else spike_filter.largest_gain


def _dropped(spike_filter: SpikeFilter | None) -> dict[str, float | int]:
    """Return the kernels' arguments for dropout on the layer's own spikes."""
    found = spike_filter or SpikeFilter()
    drop = found.dropout_arguments()
    return {
        "out_below": drop["below"], "out_keep": drop["keep"], "OUT_DROP": found.dropout > 0, "OUT_LAYER": found.layer
    }  # fmt: skip


def _charged(spike_cost: float) -> dict[str, float | bool]:
    """Return the kernels' arguments for a cost of the layer's own spikes."""
    return {"cost": spike_cost, "COST": spike_cost != 0}


def scan_forward(
    current: Tensor, neurons: Neurons, steps: int, batch: int, norm: Normalizer | None,
    spike_filter: SpikeFilter | None = None, *, static: bool, save: bool,
) -> Scanned:  # fmt: skip
    """Run the neurons; `save` keeps what the backward pass needs, `spike_filter` is the filter of the next synapse."""
    grid, device = neurons.grid, current.device
    total = batch * grid.neurons
    halves = 1 if spike_filter is None else spike_filter.halves
    if halves * total + 4096 > 2**31:  # the last program's neurons are counted in 32 bits too
        raise ValueError(
            f"scan_forward: a step must have fewer than 2**{32 - halves} neurons, but has {total}; use a smaller batch"
        )
    bits = torch.empty(steps * batch, grid.neurons // WORD, dtype=torch.int32, device=device)

    def each_step(wanted: bool) -> Tensor | None:
        return torch.empty(steps, batch, grid.neurons, dtype=STORED, device=device) if wanted else None

    surrogate, before = each_step(save), each_step(save and neurons.beta.requires_grad)
    rows = (
        None if spike_filter is None else torch.empty(steps * batch, halves * grid.neurons, dtype=ROWS, device=device)
    )
    nothing = neurons.theta
    taps = 0 if spike_filter is None else spike_filter.taps
    block, warps = _blocks(total, taps)
    kernels._scan_fwd_kernel[(-(-total // block),)](
        current, bits, nothing if surrogate is None else surrogate, nothing if before is None else before,
        nothing if rows is None else rows,
        norm.mean if norm else nothing, norm.scale if norm else nothing, norm.bias if norm else nothing,
        nothing if neurons.bias is None else neurons.bias, nothing if neurons.key is None else neurons.key,
        neurons.beta, neurons.theta, neurons.center, *_filter_tensors(spike_filter, nothing),
        neurons.slope, steps, total, norm.step if norm else 0,
        **neurons.dropout_arguments(), **_shared(neurons), QUOTIENT=neurons.quotient,
        **_dropped(spike_filter), TAPS=taps, GAINS=_largest_gain(spike_filter), HALVES=halves,
        SOFT=spike_filter is not None and spike_filter.soft, SURROGATE=neurons.surrogate, LEARN=before is not None,
        STATIC=static, NORM=norm is not None, PER_STEP=norm is not None and norm.step > 0,
        BIAS=neurons.bias is not None, DROP=neurons.dropout > 0, SAVE=save,
        BLOCK=block // WORD, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    return Scanned(bits, rows, surrogate, before)


def spike_counts(bits: Tensor, grid: Grid, steps: int) -> Tensor:
    """Return how often each neuron fired for each sample, `[B, neurons]` float32, from bits `[T * B, words]`."""
    batch = len(bits) // steps
    counts = torch.empty(batch, grid.neurons, dtype=torch.float32, device=bits.device)
    total = counts.numel()
    with on(bits):
        kernels._count_kernel[(-(-total // 128),)](bits, counts, steps, total, BLOCK=128, T_BLOCK=16)
    return counts


class ScanGrads(NamedTuple):
    """The gradients of the current that enters the neurons, `[T, B, neurons]` bfloat16, and of parameters."""

    current: Tensor
    bias: Tensor | None
    beta: Tensor | None
    spike_filter: FilterGrads


def scan_backward(
    grad: Tensor,
    scanned: Scanned,
    neurons: Neurons,
    spike_filter: SpikeFilter | None = None,
    *,
    of_delays: bool = False,
    of_gains: bool = False,
    spike_cost: float = 0.0,
) -> ScanGrads:
    """Return the gradients of a hidden layer from that of its spikes, after the filter if there is one.

    `spike_cost` is added to the gradient of every spike of the layer itself, before the filter.
    """
    surrogate = scanned.surrogate
    if surrogate is None:
        raise ValueError("scan_backward: the surrogate was not kept")
    steps, batch, width = surrogate.shape
    total = batch * width
    out = torch.empty_like(surrogate)

    def sums(wanted: bool, *shape: int) -> Tensor | None:
        return torch.empty(*shape, batch, width, dtype=torch.float32, device=grad.device) if wanted else None

    of_bias, of_beta = sums(neurons.bias is not None), sums(scanned.before is not None)
    count = 0 if spike_filter is None else spike_filter.sums(of_delays=of_delays, of_gains=of_gains)
    filter_sums = sums(count > 0, count)
    taps = spike_filter.taps if spike_filter is not None and spike_filter.soft else 1
    block, warps = _blocks(total, taps)
    nothing = neurons.theta
    kernels._scan_bwd_kernel[(-(-total // block),)](
        grad, surrogate, nothing if scanned.before is None else scanned.before, scanned.bits, out,
        out if of_bias is None else of_bias, out if of_beta is None else of_beta,
        out if filter_sums is None else filter_sums, nothing if neurons.key is None else neurons.key,
        neurons.beta, *_filter_tensors(spike_filter, nothing),
        steps, total, **neurons.dropout_arguments(), **_shared(neurons), **_dropped(spike_filter),
        **_charged(spike_cost), TAPS=taps, GAINS=_largest_gain(spike_filter), FILTER_SUMS=count,
        DROP=neurons.dropout > 0, SUM=of_bias is not None, LEARN=of_beta is not None, BLOCK=block, num_warps=warps,
        maxnreg=_most_registers(taps),
    )  # fmt: skip
    channels = neurons.grid.channels
    return ScanGrads(
        out,
        None if of_bias is None else of_bias.sum(0)[:channels],
        None if of_beta is None else of_beta.sum() if neurons.beta.dim() == 0 else of_beta.sum(0)[:channels],
        _filter_grads(filter_sums, spike_filter, batch, width),
    )


def _filter_grads(sums: Tensor | None, spike_filter: SpikeFilter | None, batch: int, width: int) -> FilterGrads:
    if sums is None or spike_filter is None:
        return FilterGrads()
    return filter_grads(sums, spike_filter, batch, 1, width)


def static_backward(
    current: Tensor,
    grad: Tensor,
    neurons: Neurons,
    steps: int,
    spike_filter: SpikeFilter | None = None,
    *,
    of_gains: bool = False,
    spike_cost: float = 0.0,
) -> tuple[Tensor, FilterGrads]:
    """Return the gradients of a current `[B, C, H, W]` that is constant in time, and of the filter's gains.

    `spike_cost` is as in `scan_backward`.
    """
    out = torch.empty(current.shape, dtype=torch.float32, device=current.device)
    batch, width = len(current), neurons.grid.neurons
    total = batch * width
    block, warps = _blocks(total)
    nothing = neurons.theta
    count = 0 if spike_filter is None else spike_filter.sums(of_delays=False, of_gains=of_gains)
    filter_sums = torch.empty(count, batch, width, dtype=torch.float32, device=current.device) if count else None
    kernels._static_bwd_kernel[(-(-total // block),)](
        current, grad, out, out if filter_sums is None else filter_sums,
        nothing if neurons.key is None else neurons.key,
        neurons.beta, neurons.theta, neurons.center, _filter_tensors(spike_filter, nothing)[2],
        neurons.slope, steps, total,
        **neurons.dropout_arguments(), **_shared(neurons), **_dropped(spike_filter), **_charged(spike_cost),
        GAINS=_largest_gain(spike_filter), FILTER_SUMS=count, SURROGATE=neurons.surrogate,
        DROP=neurons.dropout > 0, BLOCK=block, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    return out, _filter_grads(filter_sums, spike_filter, batch, width)
