"""Delays of spikes, hard or soft: one public op with several equal backends."""

from __future__ import annotations

import math
import os

import torch
from torch import Tensor

from bitspike.ops import checks
from bitspike.ops.available import MOST_STEPS, no_fused_kernels, transformed
from bitspike.ops.checks import is_ordinary
from bitspike.ops.delay import c as delay_c
from bitspike.ops.delay import reference
from bitspike.ops.delay import torch as delay_torch
from bitspike.ops.lif.op import Backend, require_backend

# A width in steps. Triton's gradient of delays is a difference of two sums. With delays up to 25 its error is 3e-4 of
# the whole gradient at this width, a third of it at half of this width, and far more than all of it below.
NARROWEST = 0.1


def delay(
    spikes: Tensor,
    delays: Tensor,
    *,
    longest: int | None = None,
    width: float | Tensor | None = None,
    past: Tensor | None = None,
    backend: Backend = "auto",
) -> Tensor:
    """out[t, :, j] = spikes[t - d_j, :, j]: each neuron's spikes come d_j steps later, and nothing before the start.

    `spikes` is `[T, B, N, ...]` and `delays` is `[N]`, one delay in steps for each index of dimension 2 (a neuron, or
    a channel of images). Delays are in 0..longest; `longest` is the largest delay, rounded up, unless it is given. A
    delay of T steps or more gives silence. `past [longest, B, N, ...]` holds the steps before the first one, so that a
    long input may come in parts.

    Without a `width` delays are rounded to whole steps (half to even), and get no gradient. With a `width` the output
    is a sum over k = 0..longest of spikes[t - k, :, j], weighted by exp(-((k - d_j) / width)**2 / 2) over the sum of
    these weights. Delays then get a gradient, and are learnt while the width shrinks.

    On a GPU delays are not checked, because that would wait for the device: there they are clamped to 0..longest.
    Give `longest` there, for the same reason. A `width` below 0.1 runs in PyTorch operations, because the fused kernels
    would give rounding noise as the gradient of delays; of a tensor on a GPU this is not checked.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> spikes = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]).view(4, 1, 2)  # [T, B, N]
        >>> bitspike.delay(spikes, torch.tensor([2, 1])).squeeze(1).T.tolist()
        [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]]
        >>> delays = torch.tensor([2.0, 1.0], requires_grad=True)
        >>> soft = bitspike.delay(spikes, delays, longest=3, width=0.5)
        >>> [round(value, 2) for value in soft[:, 0, 0].tolist()]  # around step 2
        [0.0, 0.11, 0.79, 0.11]
        >>> soft[3].sum().backward()  # a longer delay brings more of the spikes to step 3
        >>> bool((delays.grad > 0).all())
        True
    """
    require_backend("delay", backend)
    _require_spikes(spikes)
    delays = _checked_delays(delays, spikes)
    longest = _longest(longest, delays)
    _require_past(past, spikes, longest)
    if not checks.hidden(delays):
        _require_in_range(delays, longest)
    reach = longest if past is not None else min(longest, len(spikes))  # beyond the start there is nothing
    delays = delays.clamp(0, longest)
    if width is None:
        whole = delays.detach().round().long().clamp(max=reach)
        past = None if past is None else past.to(spikes.dtype)
        name = _backend(backend, spikes, longest)
        if name == "c":
            return delay_c.shifted(spikes, whole, past, reach)
        if name == "triton":
            from bitspike.ops.delay import triton as delay_triton

            return delay_triton.shifted(spikes, whole, past)
        return reference.shifted(spikes, whole, _present(past, reach, spikes))
    width = _checked_width(width, spikes.device)
    wide = spikes.to(torch.promote_types(torch.promote_types(spikes.dtype, delays.dtype), torch.float32))
    past = None if past is None else past.to(wide.dtype)
    name = _backend(backend, wide, longest, width)
    if name == "triton":
        from bitspike.ops.delay import triton as delay_triton

        return delay_triton.filtered(wide, delays.float(), longest, width, past).to(spikes.dtype)
    # Autocast would round the weights.
    with torch.autocast(spikes.device.type, enabled=False):
        weights = reference.taps(delays.to(wide.dtype), longest, width)[:, : reach + 1]
        if name == "c":
            return delay_c.filtered(wide, weights, past).to(spikes.dtype)
        filtered = reference.filtered if name == "reference" else delay_torch.filtered
        return filtered(wide, weights, _present(past, reach, wide)).to(spikes.dtype)


def _present(past: Tensor | None, reach: int, spikes: Tensor) -> Tensor:
    """Return the steps before the first, zeros where none are given."""
    return spikes.new_zeros((reach, *spikes.shape[1:])) if past is None else past


def _no_triton(spikes: Tensor, longest: int, width: float | Tensor | None) -> str | None:
    """Return why these spikes cannot be delayed in Triton; None if they can."""
    if reason := no_fused_kernels(spikes.device):
        return reason
    if not is_ordinary(spikes, spikes.shape, spikes.device) or spikes.numel() == 0:
        return f"the spikes are {spikes.dtype}, not float32, or empty"
    if isinstance(width, Tensor) and width.requires_grad:
        return "the width requires a gradient"
    if width is not None and not (isinstance(width, Tensor) and checks.hidden(width)) and width < NARROWEST:
        return f"the width is {float(width):g} steps, less than {NARROWEST:g}: delays would get noise as their gradient"
    if len(spikes) + longest > MOST_STEPS:  # with a past
        return f"there are {len(spikes)} steps and delays of up to {longest}, together more than {MOST_STEPS}"
    from bitspike.ops.filter.triton import LONGEST

    return None if longest <= LONGEST else f"delays are up to {longest} steps, more than {LONGEST}"


def _backend(name: str, spikes: Tensor, longest: int, width: float | Tensor | None = None) -> str:
    """Return the backend to use: the one asked for, or the fastest that applies."""
    if name == "auto":
        forced = os.environ.get("BITSPIKE_BACKEND") or "auto"
        if forced == "reference" or transformed():
            return "reference"
        if spikes.is_cuda and _no_triton(spikes, longest, width) is None:
            return "triton"
        return "c" if forced in ("auto", "c") and delay_c.refusal(spikes) is None else "torch"
    if name != "reference" and transformed():
        raise ValueError(
            f"delay: backend {name!r} cannot run within a transform of torch.func (grad, vmap, jvp, ...); "
            "use 'reference' or 'auto'"
        )
    reason = None
    if name in ("c", "triton"):
        reason = delay_c.refusal(spikes) if name == "c" else _no_triton(spikes, longest, width)
    if reason is not None:
        raise ValueError(f"delay: backend {name!r} cannot run this call: {reason}; use 'auto'")
    return name


def _require_spikes(spikes: Tensor) -> None:
    if not isinstance(spikes, Tensor):
        raise TypeError(f"delay: spikes must be a torch.Tensor, but is a {type(spikes).__name__}")
    if not spikes.is_floating_point():
        raise TypeError(
            f"delay: spikes must be floating point, but has dtype {spikes.dtype}; call spikes.float() first"
        )
    if spikes.dim() < 3 or len(spikes) == 0:
        raise ValueError(
            f"delay: spikes must be [T, B, N, ...], time first and at least one step, but has shape "
            f"{list(spikes.shape)}; what is constant in time cannot be delayed"
        )


def _checked_delays(delays: Tensor, spikes: Tensor) -> Tensor:
    """Return the delays if they fit, whole ones as floats; values that must not be read are not looked at."""
    if not isinstance(delays, Tensor):
        raise TypeError(f"delay: delays must be a torch.Tensor [N], but is a {type(delays).__name__}")
    if delays.is_complex() or delays.dtype == torch.bool:
        raise TypeError(f"delay: delays must be real numbers of steps, but has dtype {delays.dtype}")
    if delays.shape != (spikes.shape[2],):
        raise ValueError(
            f"delay: delays must be [{spikes.shape[2]}], one for each index of dimension 2 of the spikes "
            f"{list(spikes.shape)}, but has shape {list(delays.shape)}"
        )
    if delays.device != spikes.device:
        raise ValueError(
            f"delay: delays is on {delays.device} but spikes on {spikes.device}; move one to the other's device"
        )
    if not delays.is_floating_point():
        delays = delays.float()
    if not checks.hidden(delays) and not delays.isfinite().all():
        raise checks.NotFiniteError(
            f"delay: delays must be finite, but {int((~delays.isfinite()).sum())} of {delays.numel()} are not; "
            "look for a diverged training upstream"
        )
    return delays


def _longest(longest: int | None, delays: Tensor) -> int:
    if longest is None:
        if delays.is_meta or transformed():
            raise ValueError(
                "delay: longest must be given within a transform of torch.func and on meta tensors, "
                "where no delay can be read"
            )
        found = max(math.ceil(delays.max().item()), 0) if delays.numel() else 0
        if found > checks.MOST_STEPS:
            raise ValueError(f"delay: delays must be at most {checks.MOST_STEPS} steps, but the largest is {found:.4g}")
        return found
    return checks.as_longest("delay", longest)


def _require_in_range(delays: Tensor, longest: int) -> None:
    wrong = (delays < 0) | (delays > longest)
    if wrong.any():
        raise ValueError(
            f"delay: delays must be in 0..{longest}, but {int(wrong.sum())} of {delays.numel()} are not "
            f"(first: {delays[wrong][0].item():g}); clamp them, or give a larger `longest`"
        )


def _require_past(past: Tensor | None, spikes: Tensor, longest: int) -> None:
    if past is None:
        return
    if not isinstance(past, Tensor):
        raise TypeError(f"delay: past must be a torch.Tensor or None, but is a {type(past).__name__}")
    wanted = [longest, *spikes.shape[1:]]
    if list(past.shape) != wanted:
        raise ValueError(
            f"delay: past must be {wanted}, the `longest` steps before spikes {list(spikes.shape)}, "
            f"but has shape {list(past.shape)}"
        )
    if past.device != spikes.device:
        raise ValueError(
            f"delay: past is on {past.device} but spikes on {spikes.device}; move one to the other's device"
        )


def _checked_width(width: float | Tensor, device: torch.device) -> float | Tensor:
    """Return a width > 0; a tensor on another device than the CPU stays one, so that nothing waits for it."""
    if not isinstance(width, Tensor):
        return checks.as_positive("delay", "width", width)
    if width.dim() != 0 or width.device not in (device, torch.device("cpu")):
        raise ValueError(
            f"delay: width must be one number or a 0-d tensor on {device}, "
            f"but has shape {list(width.shape)} and is on {width.device}"
        )
    if not checks.hidden(width):
        checks.as_positive("delay", "width", width.detach())
    return width
