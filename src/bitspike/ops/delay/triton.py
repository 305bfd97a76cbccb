"""Delays of whole tensors in Triton, with the kernels of kernels.py; those of a fused network use parts of them.

`shifted` and `filtered` are the twins of the definition for float32 tensors; `rows` makes of event counts what a matrix
product takes. The weights of the taps are made in the kernels, so that a narrower `width` needs no new launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitspike.ops.delay import kernels
from bitspike.ops.dropout.reference import dropped_below
from bitspike.ops.first_order import first_order
from bitspike.ops.launch import at_once, on
from bitspike.ops.saved import saved_tensors

LONGEST = 63  # steps: longer delays do not fit a thread's registers
ROWS = torch.float16  # of filtered spikes
LARGEST = 65504.0  # number in it


@dataclass(frozen=True, slots=True)
class SpikeFilter:
    """The filter before a synapse: dropout, then for each neuron a delay and a gain.

    Delays are soft, or rounded if `width` is None. Gains are rounded to whole numbers in 0..largest_gain.
    """

    delays: Tensor | None = None
    longest: int = 0
    width: Tensor | None = None
    dropout: float = 0.0
    key: Tensor | None = None
    layer: int = 0
    first_row: int = 0  # of the whole batch, if it lies in several processes: masks are drawn for its rows
    gains: Tensor | None = None
    largest_gain: int = 0

    @property
    def taps(self) -> int:
        """The number of taps: 1 without a delay."""
        return 1 if self.delays is None else self.longest + 1

    @property
    def soft(self) -> bool:
        """Whether outputs are weighted sums."""
        return self.taps > 1 and self.width is not None

    @property
    def halves(self) -> int:
        """How many numbers a row has for each output: 2 where one of 11 bits may round, the value and its rest."""
        return 2 if self.soft or self.dropout > 0 or self.gains is not None else 1

    def whole_delays(self) -> Tensor:
        """Return the delays in whole steps `[N]` int32, as the definition rounds them."""
        if self.delays is None:
            raise ValueError("whole_delays: the filter has no delays")
        return self.delays.detach().clamp(0, self.longest).round().int()

    def dropout_arguments(self) -> dict[str, float | int]:
        """Return the kernels' arguments for dropout."""
        return {"below": dropped_below(self.dropout), "keep": 1 / (1 - self.dropout)}

    def constants(self) -> dict[str, float | int]:
        """Return the arguments, but tensors, of the kernels that filter whole tensors."""
        drop = {"DROP": self.dropout > 0, "LAYER": self.layer, "first_row": self.first_row, **self.dropout_arguments()}
        return {**drop, "TAPS": self.taps, "GAINS": self.largest_gain}

    def tensors(self) -> tuple[Tensor | None, ...]:
        """Return the delays, their width, the key of the dropout and the gains."""
        return self.delays, self.width, self.key, self.gains

    def sums(self, *, of_delays: bool, of_gains: bool) -> int:
        """Return how many sums over time a backward kernel makes for the gradients that are wanted."""
        return 2 if of_delays and self.soft else 1 if of_gains and self.gains is not None else 0


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
            _hard(counts, spike_filter.whole_delays(), out, wide, spike_filter)
        else:
            _soft(counts, spike_filter, out, wide, spike_filter.halves)
    return out.view(steps * batch, -1)


def _soft(x: Tensor, spike_filter: SpikeFilter, out: Tensor, stride: int | None = None, halves: int = 1) -> None:
    total = out[0].numel() // halves
    block = _block(total)
    kernels._soft_fwd_kernel[(-(-total // block),)](
        x, *spike_filter.tensors(), out, len(x), total, x[0].numel(),
        **spike_filter.constants(), **_layout(x, stride), HALVES=halves, BLOCK=block, num_warps=1,
    )  # fmt: skip


def _hard(
    x: Tensor, delays: Tensor, out: Tensor, stride: int | None = None, spike_filter: SpikeFilter | None = None
) -> None:
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


def soft(x: Tensor, delays: Tensor, longest: int, width: Tensor) -> Tensor:
    """out[t, b, j] = sum over k in 0..longest of taps[j, k] * x[t - k, b, j], with gradients for x and the delays.

    x is `[T, B, N, ...]` float32, delays `[N]` float32, width a 0-d float32 tensor on the same device; `longest` is at
    most LONGEST.
    """
    out: Tensor = _Soft.apply(x, delays, width, longest)
    return out


@first_order
class _Soft(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, delays: Tensor, width: Tensor, longest: int) -> Tensor:
        x, delays = x.contiguous(), delays.contiguous()
        out = torch.empty_like(x)
        with on(x):
            _soft(x, SpikeFilter(delays, longest, width), out)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, delays, width)
        ctx.longest = longest
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, delays, width = saved_tensors(ctx)
        grad = grads[0].contiguous()
        of_x, of_delays = ctx.needs_input_grad[:2]
        spike_filter = SpikeFilter(delays, ctx.longest, width)
        grad_x, found = filter_backward(grad, grad if x is None else x, spike_filter, of_x=of_x, of_delays=of_delays)
        flat = of_delays and spike_filter.taps == 1  # one tap weighs 1 whatever the delay is
        return grad_x, torch.zeros_like(delays) if flat else found.delays, None, None


def hard(x: Tensor, delays: Tensor) -> Tensor:
    """out[t, b, j] = x[t - delays[j], b, j], with a gradient for x; delays `[N]` are whole steps, int32."""
    out: Tensor = _Hard.apply(x, delays)
    return out


@first_order
class _Hard(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, delays: Tensor) -> Tensor:
        ctx.save_for_backward(delays)
        return _shifted(x, delays)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (delays,) = saved_tensors(ctx)
        return _shifted(grads[0], -delays), None


def _shifted(x: Tensor, delays: Tensor) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel():
        with on(x):
            _hard(x, delays, out)
    return out


def shifted(spikes: Tensor, delays: Tensor, past: Tensor | None) -> Tensor:
    """Compute the definition's `shifted`; without a `past` the steps before the first are 0."""
    whole = delays.int()
    return hard(spikes, whole) if past is None else hard(torch.cat([past, spikes]), whole)[len(past) :]


def filtered(spikes: Tensor, delays: Tensor, longest: int, width: float | Tensor, past: Tensor | None) -> Tensor:
    """Compute the definition's `filtered` by its `taps`; sums are rounded in another order."""
    if isinstance(width, Tensor):
        width = width.to(spikes.device, torch.float32)
    else:
        width = torch.full((), width, dtype=torch.float32, device=spikes.device)
    if past is None:
        return soft(spikes, delays, longest, width)
    return soft(torch.cat([past, spikes]), delays, longest, width)[len(past) :]
