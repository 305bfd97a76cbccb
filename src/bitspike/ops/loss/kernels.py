"""The count loss in Triton, and what an iteration notes down."""
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


@triton.jit(do_not_specialize=["T", "on", "off"])
def _count_loss_kernel(
    spikes, labels, losses, rights, grads, T, size, on, off, scale,
    CLASSES: tl.constexpr, C_BLOCK: tl.constexpr, T_BLOCK: tl.constexpr,
):  # fmt: skip
    """Of a sample a program: losses = scale * sum of (n - target)**2, grads = 2 * scale * (n - target), rights."""
    b = tl.program_id(0)
    c = tl.arange(0, C_BLOCK)
    size = tl.full([], 0, tl.int64) + size
    total = tl.zeros([T_BLOCK, C_BLOCK], tl.float32)
    for begin in range(0, T, T_BLOCK):
        t = begin + tl.arange(0, T_BLOCK)[:, None]
        at = t * size + b * CLASSES + c[None, :]
        total += tl.load(spikes + at, mask=(t < T) & (c < CLASSES)[None, :], other=0.0)
    count = tl.sum(total, axis=0)
    label = tl.load(labels + b)
    off_by = tl.where(c < CLASSES, count - tl.where(label == c, on, off), 0.0)
    tl.store(grads + b * CLASSES + c, 2.0 * scale * off_by, mask=c < CLASSES)
    tl.store(losses + b, scale * tl.sum(off_by * off_by, axis=0))
    most = tl.max(tl.where(c < CLASSES, count, -1.0), axis=0)
    first = tl.min(tl.where((count == most) & (c < CLASSES), c, C_BLOCK), axis=0)  # of equal ones the first
    tl.store(rights + b, tl.where((first == label) & (most > 0), 1.0, 0.0))  # silence is no answer


@triton.jit(do_not_specialize=["count"])
def _tally_kernel(sums, loss, rights, count, BLOCK: tl.constexpr):
    """sums += loss * count, right ones, count; in float64."""
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
def _positive(draw):
    """31 bits of it, as a signed number: Triton divides no mixed ones."""
    return draw.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@triton.jit(do_not_specialize=["first_row"])
def _images_kernel(
    values, labels, rows, images, chosen, key, first_row, levels,
    SIZE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, SHIFT: tl.constexpr,
    CONTRAST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """images[b] = values[rows[b]] / 255, as `jittered` moves it, times its factor; chosen[b] = labels[rows[b]]."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + b).to(tl.int64)
    inside = i < SIZE
    source = i
    if SHIFT > 0 or CONTRAST:
        # a draw a pixel, all of them the image's: philox wants blocks
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
