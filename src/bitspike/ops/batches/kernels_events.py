"""Triton kernels of training events: those that move, stretch and thin samples, and those that mix them."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.batches import event_jitter as _event_jitter
from bitspike.ops.batches import mix as _mix
from bitspike.ops.batches.kernels import _positive
from bitspike.ops.dropout.reference import ROUNDS as _ROUNDS

ROUNDS = tl.constexpr(_ROUNDS)
PLACE = tl.constexpr(_event_jitter.PLACE)
ENTRY_PLACE = tl.constexpr(_event_jitter.ENTRY_PLACE)
ENTRIES = tl.constexpr(_event_jitter.ENTRIES)
ONE = tl.constexpr(_event_jitter.ONE)
MOST = tl.constexpr(_event_jitter.MOST)
TIME = tl.constexpr(_event_jitter.TIME)
ACROSS = tl.constexpr(_event_jitter.ACROSS)
DOWN = tl.constexpr(_event_jitter.DOWN)
COUNT = tl.constexpr(_event_jitter.COUNT)
WAVE = tl.constexpr(_event_jitter.WAVE)
SAMPLE_PLACE = tl.constexpr(_mix.SAMPLE_PLACE)
CHANNEL_PLACE = tl.constexpr(_mix.CHANNEL_PLACE)


@triton.jit
def _within(seed, row, entry, AXIS: tl.constexpr):
    """Return the place of each bin within its time step or pixel, as `places_within` draws it."""
    d0, d1, d2, d3 = tl.philox(seed, row, entry // ENTRIES, entry * 0 + AXIS, entry * 0 + ENTRY_PLACE, ROUNDS)
    half = entry % ENTRIES
    word = tl.where(half < 4, tl.where(half < 2, d0, d1), tl.where(half < 6, d2, d3)).to(tl.int32, bitcast=True)
    return tl.where(half % 2 == 0, word, word >> 16) & 0xFFFF


@triton.jit
def _zoomed(x, within, zoom, WIDTH: tl.constexpr):
    """Return floor((x + within - WIDTH/2) * zoom + WIDTH/2), where `within` and `zoom` count parts of 2**-16."""
    middle = tl.full([], WIDTH, tl.int64)
    return (((x.to(tl.int64) * ONE + within - (middle << 15)) * zoom + (middle << 31)) >> 32).to(tl.int32)


@triton.jit
def _kept_share(lost, wave):
    """Return the share of events that stays where the wave is `wave`, from 0 to 2: it falls to 1 - `lost` and rises."""
    wave = tl.where(wave > ONE, 2 * ONE - wave, wave)
    return ONE - ((lost.to(tl.int64) * wave) >> 16).to(tl.int32)


@triton.jit(do_not_specialize=["first_row", "batch", "steps"])
def _jittered_kernel(
    index, count, starts, lengths, rows, sums, key, first_row, batch, steps,
    SIZE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, FLAT: tl.constexpr,
    SHIFT: tl.constexpr, REACH: tl.constexpr, TIME_SHIFT: tl.constexpr, ZOOM: tl.constexpr, LOST: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """sums[t, b, place] += count for BLOCK bins of sample rows[b], each where `jittered_counts` puts it."""
    b = tl.program_id(0).to(tl.int64)
    source = tl.load(rows + b)
    start, length = tl.load(starts + source), tl.load(lengths + source)
    entry = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    held = entry < length
    place = tl.load(index + start + entry, mask=held, other=0)
    value = tl.load(count + start + entry, mask=held, other=0).to(tl.int32)
    seed = tl.load(key)
    # every bin draws the sample's numbers, because philox needs blocks
    row = entry * 0 + (b.to(tl.int32) + first_row)
    down, right, factor, later = tl.philox(seed, row, entry * 0, entry * 0, entry * 0 + PLACE, ROUNDS)
    t, place = place // SIZE, place % SIZE
    x, y, plane = place % WIDTH, place // WIDTH % HEIGHT, place // (WIDTH * HEIGHT)
    if ZOOM > 0 or LOST > 0:
        drawn, lost, phase, upright = tl.philox(seed, row, entry * 0 + 1, entry * 0, entry * 0 + PLACE, ROUNDS)
    if LOST > 0:
        along = (x.to(tl.int64) * WAVE // WIDTH).to(tl.int32)
        if not FLAT:
            along = tl.where(_positive(upright) % 2 == 1, (y.to(tl.int64) * WAVE // HEIGHT).to(tl.int32), along)
        kept = _kept_share(_positive(lost) % (LOST + 1), (along + _positive(phase) % ONE) % ONE * 2)
        value = (value * kept + _within(seed, row, entry, COUNT)) >> 16
    if REACH > 0:
        times = _positive(factor) % (2 * REACH + 1) + (ONE - REACH)
        t = (((t.to(tl.int64) * ONE + _within(seed, row, entry, TIME)) * times) >> 32).to(tl.int32)
    if ZOOM > 0:
        zoom = _positive(drawn) % (2 * ZOOM + 1) + (ONE - ZOOM)
        x = _zoomed(x, _within(seed, row, entry, ACROSS), zoom, WIDTH)
        if not FLAT:
            y = _zoomed(y, _within(seed, row, entry, DOWN), zoom, HEIGHT)
    t += _positive(later) % (2 * TIME_SHIFT + 1) - TIME_SHIFT
    x += _positive(right) % (2 * SHIFT + 1) - SHIFT
    if not FLAT:
        y += _positive(down) % (2 * SHIFT + 1) - SHIFT
    held = held & (t >= 0) & (t < steps) & (x >= 0) & (x < WIDTH) & (y >= 0) & (y < HEIGHT)
    target = (t * tl.cast(batch, tl.int64) + b) * SIZE + (plane * HEIGHT + y) * WIDTH + x
    tl.atomic_add(sums + target, value, mask=held, sem="relaxed")


@triton.jit
def _bytes_kernel(sums, out, total, BLOCK: tl.constexpr):
    """out = min(sums, 255) as bytes."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    found = tl.load(sums + i, mask=i < total, other=0)
    tl.store(out + i, tl.minimum(found, MOST).to(tl.uint8), mask=i < total)


@triton.jit(do_not_specialize=["T", "batch"])
def _mixed_kernel(
    counts, others, out, shares, key, T, batch,
    SIZE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, FLAT: tl.constexpr,
    SHARE: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr, FLIP: tl.constexpr, STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """out[t, b, n] = others[t, b, n] where `taken` says so, else counts[t, b, n]; shares[b] of them are taken.

    With FLIP it is others[t, B - 1 - b, n].

    A program takes STEPS steps of one sample.
    """
    b = tl.program_id(0)
    seed = tl.load(key)
    stride = tl.cast(batch, tl.int64) * SIZE
    total = tl.zeros([BLOCK], tl.int32)
    for begin in range(0, SIZE, BLOCK):
        n = begin + tl.arange(0, BLOCK)
        row = n * 0 + b
        # every place draws the sample's numbers, because philox needs blocks
        w0, w1, w2, w3 = tl.philox(seed, row, n * 0, n * 0, n * 0 + SAMPLE_PLACE, ROUNDS)
        if FLAT:
            word, _, _, _ = tl.philox(seed, row, n, n * 0, n * 0 + CHANNEL_PLACE, ROUNDS)
            take = ((word.to(tl.int32, bitcast=True) >> 16) & 0xFFFF) < _positive(w0) % (SHARE + 1)
        else:
            x, y = n % WIDTH, n // WIDTH % HEIGHT
            tall, broad = _positive(w0) % (HIGH + 1), _positive(w1) % (WIDE + 1)
            top, left = _positive(w2) % (HEIGHT - tall + 1), _positive(w3) % (WIDTH - broad + 1)
            take = (y >= top) & (y < top + tall) & (x >= left) & (x < left + broad)
        take = take & (n < SIZE)
        total += take.to(tl.int32)
        own = tl.cast(b, tl.int64) * SIZE + n
        other = tl.cast(batch - 1 - b if FLIP else b, tl.int64) * SIZE + n
        for k in range(STEPS):
            t = tl.program_id(1) * STEPS + k
            held = (n < SIZE) & (t < T)
            value = tl.load(counts + t * stride + own, mask=held & ~take, other=0)
            value += tl.load(others + t * stride + other, mask=held & take, other=0)
            tl.store(out + t * stride + own, value, mask=held)
    if tl.program_id(1) == 0:
        tl.store(shares + b, tl.div_rn(tl.sum(total, axis=0).to(tl.float32), SIZE * 1.0))
