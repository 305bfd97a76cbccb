"""Triton kernels that scatter events, gather and jitter images, and add up the sums of an iteration."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.batches.jitter import LEVELS as _LEVELS
from bitspike.ops.batches.jitter import PLACE as _PLACE
from bitspike.ops.dropout.reference import ROUNDS as _ROUNDS

ROUNDS = tl.constexpr(_ROUNDS)
PLACE = tl.constexpr(_PLACE)
LEVELS = tl.constexpr(_LEVELS)


@triton.jit(do_not_specialize=["count"])
def _tally_kernel(sums, loss, rights, count, BLOCK: tl.constexpr):
    """sums[0..2] += loss * count, right samples, count; in float64."""
    right = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, count, BLOCK):
        b = begin + tl.arange(0, BLOCK)
        right += tl.load(rights + b, mask=b < count, other=0.0)
    n = count.to(tl.float64)
    tl.store(sums, tl.load(sums) + tl.load(loss).to(tl.float64) * n)
    tl.store(sums + 1, tl.load(sums + 1) + tl.sum(right, axis=0).to(tl.float64))
    tl.store(sums + 2, tl.load(sums + 2) + n)


@triton.jit
def _first_bad_kernel(norms, first, step, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """first[i] = step where norms[i] is not finite and first[i] is still -1."""
    i = tl.arange(0, BLOCK)
    norm = tl.load(norms + i, mask=i < SIZE, other=0.0)
    before = tl.load(first + i, mask=i < SIZE, other=0)
    fine = (norm < float("inf")) | (before >= 0)  # NaN is not below infinity
    tl.store(first + i, tl.where(fine, before, tl.load(step)), mask=i < SIZE)


@triton.jit
def _scatter_kernel(
    index, count, starts, lengths, rows, out, batch, size, width, steps, BLOCK: tl.constexpr
):  # fmt: skip
    """out[t, b, position] = count for BLOCK events of sample rows[b]; no two events share a place."""
    b = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + b)
    start, length = tl.load(starts + row), tl.load(lengths + row)
    event = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    held = event < length
    place = tl.load(index + start + event, mask=held, other=0)
    value = tl.load(count + start + event, mask=held, other=0)
    t = place // size
    tl.store(out + (t * tl.cast(batch, tl.int64) + b) * width + place - t * size, value, mask=held & (t < steps))


@triton.jit
def _positive(draw):
    """Return 31 bits of a draw as a signed number: Triton does not divide signed by unsigned ones."""
    return draw.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit(do_not_specialize=["first_row"])
def _images_kernel(
    values, labels, rows, images, chosen, key, first_row, levels,
    SIZE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SHIFT: tl.constexpr,
    CONTRAST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """images[b] = values[rows[b]] / 255, moved as in `jittered`, times its factor; chosen[b] = labels[rows[b]]."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + b).to(tl.int64)
    inside = i < SIZE
    source = i
    if SHIFT > 0 or CONTRAST:
        # every pixel draws the image's numbers, because philox needs blocks
        image = tl.zeros([BLOCK], tl.int32) + (b.to(tl.int32) + first_row)
        none = tl.zeros([BLOCK], tl.int32)
        down, right, _, level = tl.philox(tl.load(key), image, none, none, none + PLACE, ROUNDS)
    if SHIFT > 0:
        x, y, plane = i % WIDTH, i // WIDTH % HEIGHT, i // (WIDTH * HEIGHT)
        y = y - (_positive(down) % (2 * SHIFT + 1) - SHIFT)
        x = x - (_positive(right) % (2 * SHIFT + 1) - SHIFT)
        inside = inside & (x >= 0) & (x < WIDTH) & (y >= 0) & (y < HEIGHT)
        source = (plane * HEIGHT + y) * WIDTH + x
    pixel = tl.load(values + row * SIZE + source, mask=inside, other=0).to(tl.float32)
    pixel = tl.div_rn(pixel, 255.0)
    if CONTRAST:
        pixel = pixel * tl.load(levels + _positive(level) % LEVELS)
    tl.store(images + b * SIZE + i, pixel, mask=i < SIZE)
    if tl.program_id(1) == 0:
        tl.store(chosen + b, tl.load(labels + row))
