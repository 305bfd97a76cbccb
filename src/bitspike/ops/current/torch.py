"""The current at test time by PyTorch's products: the bits of reference.py, because the order of exact sums is free.

If all inputs of a sample are multiples of one power of two, and the largest possible sum is at most 2^53 times that
power (2^24 in float32), then no partial sum is rounded, whatever the order. Spikes, counts and pixels are of this kind.
Samples that are not are summed in the order of the definition.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.ops.current import c, reference
from bitspike.ops.current.form import Form
from bitspike.ops.current.reference import Norm

_WHOLE = 256  # counts up to here are exact even where PyTorch may round the factors of float32 products to bfloat16
_FLOAT32, _FLOAT64 = 24, 53  # binary digits
_AT_ONCE = 1 << 21  # numbers that are made at once
_IN_CACHE = 1 << 16  # float64 sums that stay near the processor while terms are added


def current(
    x: Tensor,
    signs: Tensor,
    form: Form,
    bias: Tensor | None = None,
    norm: Norm | None = None,
    *,
    native: bool = False,
) -> Tensor:
    """Return `reference.current`, bit for bit, with autograd's gradients; `native` lets C do what surrounds products.

    Numbers that are not finite give a current that is not finite.
    """
    terms = signs[0].numel() * form.divisor
    if whole_numbers(x, terms, native=native):
        size = signs.shape[0] * x.shape[2] * x.shape[3] if signs.dim() == 4 else 0
        found = _in_parts(x, size, lambda part: divided(_sums(part, signs, form), form.divisor))
    else:
        size = signs.shape[0] * x.shape[2] * x.shape[3] if signs.dim() == 4 else sum(signs.shape)
        found = _in_parts(x, size, lambda part: _from_real_numbers(part, signs, form, terms))
    return finished(found, bias, norm, native=native)


def whole_numbers(x: Tensor, terms: int, *, native: bool = False) -> bool:
    """Return whether x holds whole numbers of so many bits that float32 holds every sum of `terms` of them."""
    if native:
        largest = c.largest_whole(x)
        return largest is not None and largest <= _WHOLE and terms * largest <= 2**_FLOAT32
    x = x.detach()
    low, high = (float(end) for end in torch.aminmax(x))
    largest = max(-low, high)
    return largest <= _WHOLE and terms * largest <= 2**_FLOAT32 and torch.equal(x, x.trunc())


def _from_real_numbers(x: Tensor, signs: Tensor, form: Form, terms: int) -> Tensor:
    """Return the current of real numbers before the bias: exact sums where they are, else sums in order."""
    wide = signs.double()
    total = _sums(x.double(), wide, form)
    rounds = ~exact_rows(x, terms)
    if rounds.any():
        with torch.no_grad():
            ordered = total.clone()
            ordered[rounds] = _ordered(x[rounds], wide, form)
        # The bracket is 0, or NaN where the sum is not finite: it only has a gradient.
        total = ordered if not total.requires_grad else ordered + (total - total.detach())
    return (total / form.divisor).to(torch.float32)


def exact_rows(x: Tensor, terms: int) -> Tensor:
    """Return for each row of x whether float64 holds every sum of `terms` of its numbers, in any order: `[R]`."""
    rows = x.detach().flatten(1).double()
    largest = terms * rows.abs().amax(1, keepdim=True)
    digits = torch.frexp(largest).exponent.long()  # no sum is larger than 2**digits
    # 2**(53 - digits) by its bits: torch.ldexp makes the power in float32, which is too narrow.
    steps = rows * (1023 + _FLOAT64 - digits << 52).view(torch.float64)
    return (steps == steps.trunc()).all(1) | ~largest.isfinite().squeeze(1)


def _sums(x: Tensor, signs: Tensor, form: Form) -> Tensor:
    """Return the sums after all pools, in any order. A first average pool comes before the convolution.

    The sum of a window's convolutions is the convolution of the sums of windows. So the kernel is needed at the pool's
    places only.
    """
    if signs.dim() == 2:
        return F.linear(x, signs)
    first = form.pools[0] if form.pools else None
    if first is None or first.kind == "max" or form.stride != (1, 1):
        return pooled(_convolved(x, signs, form.stride, form.padding), form)
    windows = _windows(x, first.size, form.padding)
    # Counts of a window may be too many for PyTorch's float32 products.
    wide = windows.double() if float(windows.detach().abs().amax()) > _WHOLE else windows
    total = _convolved(wide, signs.to(wide.dtype), (first.stride, first.stride), (0, 0)).to(x.dtype)
    return pooled(total, form._replace(pools=form.pools[1:]))


def _windows(x: Tensor, size: int, padding: tuple[int, int]) -> Tensor:
    """Return the sums of all windows of size x size in x, which has zeros around it."""
    rows, columns = padding
    x = F.pad(x, (columns, columns, rows, rows)) if any(padding) else x
    for window in ((size, 1), (1, size)):  # one side after the other: 2 * size additions, not size**2
        x = F.avg_pool2d(x, window, 1, divisor_override=1)
    return x


def _convolved(x: Tensor, kernel: Tensor, stride: tuple[int, int], padding: tuple[int, int]) -> Tensor:
    """Return the convolution of x; its only operations on x are products with the kernel, and sums.

    Without oneDNN, PyTorch may give float32 to NNPACK, which transforms images, and whole numbers do not stay whole.
    It takes no float64.
    """
    nnpack = x.device.type == "cpu" and not (torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled())
    wide = x.double() if nnpack else x
    return F.conv2d(wide, kernel.to(wide.dtype), None, stride, padding).to(x.dtype)


def pooled(total: Tensor, form: Form) -> Tensor:
    """Return exact sums after all pools; an average pool adds up."""
    for pool in form.pools:
        if pool.kind == "average":
            total = F.avg_pool2d(total, pool.size, pool.stride, divisor_override=1)
        else:
            total = F.max_pool2d(total, pool.size, pool.stride)
    return total


def divided(total: Tensor, divisor: int) -> Tensor:
    """Return whole numbers (float32) over `divisor`, rounded once, as float64's quotient rounded to float32 is."""
    return total if divisor == 1 else total / divisor


def _ordered(x: Tensor, signs: Tensor, form: Form) -> Tensor:
    """Return the float64 sums of the definition after all pools, a few rows at a time."""
    if signs.dim() == 2:
        return _ordered_rows(x.double(), signs)
    taps = signs.flatten(1)
    images = []
    for image in x.double().split(1):
        seen = F.unfold(image, signs.shape[2:], padding=form.padding, stride=form.stride)  # in order of the definition
        height = (x.shape[2] + 2 * form.padding[0] - signs.shape[2]) // form.stride[0] + 1
        total = _ordered_rows(seen[0].T, taps).T.reshape(1, len(signs), height, -1)
        for pool in form.pools:
            total = reference.pooled(total, pool)
        images.append(total)
    return torch.cat(images)


def _ordered_rows(x: Tensor, signs: Tensor) -> Tensor:
    """sum over k of x[r, k] * signs[n, k], `[R, N]` float64, in ascending order of k."""
    columns = signs.T.contiguous()
    parts = []
    for rows in x.split(max(1, _IN_CACHE // len(signs))):
        total = rows.new_zeros(len(rows), len(signs))
        for term, sign in zip(rows.T.contiguous()[:, :, None], columns, strict=True):
            total.addcmul_(term, sign)  # a product with -1 or +1 is exact, so only the sum is rounded
        parts.append(total)
    return torch.cat(parts)


def _in_parts(x: Tensor, size: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return `function(x)`, a few rows of `size` numbers at a time: large buffers leave the cache.

    The gradient of weights is more exact so, too: a float32 sum over all rows would lose digits.
    """
    rows = max(1, _AT_ONCE // max(1, size))
    return function(x) if not size or len(x) <= rows else torch.cat([function(part) for part in x.split(rows)])


def finished(current: Tensor, bias: Tensor | None, norm: Norm | None, *, native: bool = False) -> Tensor:
    """Return `reference.finished` of a current `[R, N]` or `[R, O, h, w]`; without gradients it is written over."""
    if bias is None and norm is None:
        return current
    learns = any(part is not None and part.requires_grad for part in (current, bias, *(norm or ())))
    if torch.is_grad_enabled() and learns:
        return reference.finished(current, bias, norm)
    current = current.contiguous()
    rows = current.view(len(current), -1)
    places = rows.shape[1] // current.shape[1]

    def each(values: Tensor) -> Tensor:  # one number a neuron: PyTorch is slow where a few places share one
        return values.detach() if places == 1 else values.detach().repeat_interleave(places)

    scale, offset = (None, None) if norm is None else map(each, norm)
    bias = None if bias is None else each(bias)
    if native:
        c.finish(rows, bias, scale, offset)
        return current
    if bias is not None:
        rows.add_(bias)
    if scale is not None and offset is not None:
        rows.mul_(scale).add_(offset)
    return current
