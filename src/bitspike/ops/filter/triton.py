"""Filters of whole tensors in Triton, with the kernels of kernels.py; those of a fused network use parts of them.

`rows` makes of event counts what a matrix product takes; `ops/delay` runs `soft_kernel` and `hard_kernel` on float32
tensors. The weights of the taps are made in the kernels, so that a narrower `width` needs no new launch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bitspike.ops.filter import kernels
from bitspike.ops.filter.spike_filter import SpikeFilter
from bitspike.ops.launch import at_once, on

LONGEST = 63  # steps: longer delays do not fit a thread's registers
ROWS = torch.float16  # of filtered spikes
LARGEST = 65504.0  # number in it


def _block(programs_of: int) -> int:
    return at_once(32 if programs_of < 132 * 1024 else 64)


def _layout(x: Tensor, stride: int | None = None) -> dict[str, int]:
    places = x.shape[3:].numel()
    return {"NEURONS": x.shape[2], "PLACES": places, "STRIDE": stride or x.shape[2] * places}


def rows(counts: Tensor, spike_filter: SpikeFilter, wide: int) -> Tensor:
    """Return counts `[T, B, N]` uint8 after the filter as rows `[T * B, halves * wide]`, 0 in the padding.

    The second half, if there is one, is 2**11 times what the first one's rounding to float16 left over.
    """
    steps, batch = counts.shape[:2]
    out = torch.empty(steps, batch, spike_filter.halves * wide, dtype=ROWS, device=counts.device)
    with on(counts):
        if spike_filter.taps > 1 and not spike_filter.soft:
            hard_kernel(counts, spike_filter.whole_delays(), out, wide, spike_filter)
        else:
            soft_kernel(counts, spike_filter, out, wide, spike_filter.halves)
    return out.view(steps * batch, -1)


def soft_kernel(x: Tensor, spike_filter: SpikeFilter, out: Tensor, stride: int | None = None, halves: int = 1) -> None:
    """Write x `[T, B, N, ...]` after the filter, with soft delays or none, into `out`: rows of `stride`, in halves."""
    total = out[0].numel() // halves
    block = _block(total)
    kernels._soft_fwd_kernel[(-(-total // block),)](
        x, *spike_filter.tensors(), out, len(x), total, x[0].numel(),
        **spike_filter.constants(), **_layout(x, stride), HALVES=halves, BLOCK=block, num_warps=1,
    )  # fmt: skip


def hard_kernel(
    x: Tensor, delays: Tensor, out: Tensor, stride: int | None = None, spike_filter: SpikeFilter | None = None
) -> None:
    """Write x `[T, B, N, ...]` after whole delays `[N]` int32, and the filter's gains, into `out`, as `soft_kernel`."""
    spike_filter = spike_filter or SpikeFilter()
    total = out[0].numel() // spike_filter.halves
    block = at_once(512)
    kernels._hard_kernel[(-(-total // block), len(x))](
        x, delays, spike_filter.gains, out, len(x), total, x[0].numel(), **_layout(x, stride),
        GAINS=spike_filter.largest_gain, HALVES=spike_filter.halves, BLOCK=block,
    )  # fmt: skip


class FilterGrads(NamedTuple):
    """The gradients of a filter's delays and gains, `[N]` each."""

    delays: Tensor | None = None
    gains: Tensor | None = None


def filter_backward(
    grad: Tensor,
    x: Tensor,
    spike_filter: SpikeFilter,
    stride: int | None = None,
    *,
    of_x: bool,
    of_delays: bool,
    of_gains: bool = False,
) -> tuple[Tensor | None, FilterGrads]:
    """Return the gradient of x `[T, B, N, ...]` (in grad's dtype) and those of the filter, from that of the output.

    `stride` is the number of columns of the gradient, if it is not that of x.
    """
    if spike_filter.taps > 1 and not spike_filter.soft:
        raise ValueError("filter_backward: the filter's delays are rounded")
    batch, row = x.shape[1], x[0].numel()
    out = torch.empty(x.shape, dtype=grad.dtype, device=x.device) if of_x else grad
    layout = _layout(x, stride)
    count = spike_filter.sums(of_delays=of_delays, of_gains=of_gains)
    sums = torch.empty(count, row, dtype=torch.float32, device=x.device)
    with on(x):
        kernels._soft_bwd_kernel[(-(-row // _block(row)),)](
            grad, x, *spike_filter.tensors(), out, sums, len(x), batch * layout["STRIDE"], row,
            **spike_filter.constants(), **layout, OF_X=of_x, SUMS=count, BLOCK=_block(row), num_warps=1,
        )  # fmt: skip
        found = filter_grads(sums, spike_filter, batch, layout["PLACES"], row // batch)
    return out if of_x else None, found


def filter_grads(sums: Tensor, spike_filter: SpikeFilter, batch: int, places: int, stride: int) -> FilterGrads:
    """Return the gradients of delays and gains from a backward kernel's sums `[0 to 2, batch, stride]`."""
    neurons = next((len(each) for each in (spike_filter.delays, spike_filter.gains) if each is not None), 0)
    if not len(sums) or not neurons:
        return FilterGrads()

    def gradient(wanted: bool) -> Tensor | None:
        return torch.empty(neurons, dtype=torch.float32, device=sums.device) if wanted else None

    found = FilterGrads(gradient(len(sums) > 1), gradient(spike_filter.gains is not None))
    block = at_once(8)
    kernels._filter_grad_kernel[(-(-neurons // block),)](
        sums, spike_filter.delays, spike_filter.width, spike_filter.gains, *found, batch,
        NEURONS=neurons, PLACES=places, STRIDE=stride, TAPS=spike_filter.taps, GAINS=spike_filter.largest_gain,
        SUMS=len(sums), ROWS=at_once(64, 256), BLOCK=block,
    )  # fmt: skip
    return found
