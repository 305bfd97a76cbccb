"""A call of `delay` against oracles that share no code with it, and what tests of its twins share."""

import torch
import torch.nn.functional as F
from hypothesis import strategies as st

from bitspike import delay

SHAPES = [(1, 1), (2, 3), (1, 17), (3, 2, 2, 3), (2, 1, 5)]  # of one step: [B, N, ...]


@st.composite
def calls(draw_one, soft=None):
    """The arguments of a call of `delay`: hard or soft, with a past or without; numbers that are not spikes too."""
    generator = torch.Generator().manual_seed(draw_one(st.integers(0, 10_000)))
    steps, longest = draw_one(st.integers(1, 12)), draw_one(st.integers(0, 14))
    shape = draw_one(st.sampled_from(SHAPES))
    soft = draw_one(st.booleans()) if soft is None else soft
    whole = torch.randn(longest + steps, *shape, generator=generator)
    if draw_one(st.booleans()):
        whole = whole.gt(0.5).float()
    call = {
        "spikes": whole[longest:],
        "delays": torch.rand(shape[1], generator=generator) * longest,
        "longest": longest,
        "past": whole[:longest] if draw_one(st.booleans()) else None,
        "width": draw_one(st.sampled_from([0.05, 0.3, 1.0, 7.0])) if soft else None,
    }
    if draw_one(st.booleans()):
        call["delays"] = call["delays"].round()
    return call


def learn(call, incoming, dtype=torch.float32, **options):
    """The output, and the gradients of spikes, delays and past that `incoming` sends."""
    call = {name: v.to(dtype) if isinstance(v, torch.Tensor) else v for name, v in call.items()}
    leaves = {
        name: call[name].detach().clone().requires_grad_()
        for name in ("spikes", "past", *(["delays"] if call["width"] is not None else []))
        if call[name] is not None
    }
    out = delay(**call | leaves, **options)
    out.backward(incoming.to(dtype))
    return out.detach(), {
        name: leaf.new_zeros(leaf.shape) if leaf.grad is None else leaf.grad for name, leaf in leaves.items()
    }


def by_hand(spikes, delays, past):
    """Every neuron's steps moved one by one, for delays of whole steps."""
    out = torch.zeros_like(spikes)
    for t in range(len(spikes)):
        for j, d in enumerate(delays.tolist()):
            if t - int(d) >= 0:
                out[t, :, j] = spikes[t - int(d), :, j]
            elif past is not None:
                out[t, :, j] = past[len(past) + t - int(d), :, j]
    return out


def dilated_convolution(spikes, delays, longest, width, past):
    """A depthwise convolution with a normalised Gaussian, as in dilated convolutions with learnable spacings."""
    if past is None:
        past = torch.zeros(longest, *spikes.shape[1:], dtype=spikes.dtype)
    series = torch.cat([past, spikes]).movedim(0, -1)  # [B, N, ..., P + T]
    neurons, steps = series.shape[1], series.shape[-1]
    series = series.movedim(1, -2).reshape(-1, neurons, steps)  # [B * sites, N, P + T]
    places = torch.arange(longest + 1, dtype=spikes.dtype).flip(0)
    kernel = torch.exp(-0.5 * ((places - delays[:, None]) / width) ** 2)
    kernel = kernel / kernel.sum(1, keepdim=True)
    out = F.conv1d(series, kernel[:, None], groups=neurons)
    batch, *sites = spikes.shape[1], *spikes.shape[3:]
    return out.view(batch, *sites, neurons, len(spikes)).movedim(-2, 1).movedim(-1, 0)
