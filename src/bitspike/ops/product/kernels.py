"""Products of spikes (bits) or event counts (bytes) with signs, in Triton; their gradients are in kernels_backward.py.

A row m of an output is a sample's step and a place: m = (row * HEIGHT + y) * WIDTH + x. The kernel's weights lie as
`[words * 32, N]`, a word's bit k at row word * 32 + k. Accumulators are float32: whole numbers below 2**24 are exact.
FLOAT is the tensor cores' bfloat16; Triton's interpreter, which has no such products, takes float32.

With WHOLE, spikes and weights are bytes and sums 32-bit integers. Its weights lie as `[N, words * 32]`, and a word's
bits in the order in which they are unpacked four at a time: bit b at column word * 32 + (b % 8) * 4 + b // 8.
"""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit
def _word_tile(
    bits, base, inside, first, total,
    RUN: tl.constexpr, LINE: tl.constexpr, WORDS: tl.constexpr, EDGE: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """Return `[M, G]`: words first..first+G-1 of the kernel, for rows from word `base` on.

    EDGE says that a row of the kernel may reach past its last channel, and so past the end of the bits.
    """
    word = first + tl.arange(0, G)
    place = base[:, None] + ((word // RUN) * LINE + word % RUN)[None, :]
    mask = inside[:, None]
    if WORDS % G != 0:
        mask = mask & (word < WORDS)[None, :]
    if EDGE:
        mask = mask & (place < total)
    return tl.load(bits + place, mask=mask, other=0)


@triton.jit
def _byte_tile(held):
    """Return `[M, G * 32]` spikes as bytes, from words `[M, G]`: four at a time, in the order of WHOLE weights."""
    x = (held[:, :, None] >> tl.arange(0, 8)[None, None, :]) & 0x01010101
    b0, b1, b2, b3 = x.to(tl.int8), (x >> 8).to(tl.int8), (x >> 16).to(tl.int8), (x >> 24).to(tl.int8)
    return tl.reshape(tl.join(tl.join(b0, b2), tl.join(b1, b3)), [held.shape[0], held.shape[1] * 32])


@triton.jit
def _bit_tile(
    bits, base, inside, first, total,
    RUN: tl.constexpr, LINE: tl.constexpr, WORDS: tl.constexpr, EDGE: tl.constexpr, G: tl.constexpr,
    FLOAT: tl.constexpr,
):  # fmt: skip
    """Return `[M, G * 32]`: spikes times 2, from words first..first+G-1 of the kernel, for rows from word `base` on."""
    held = _word_tile(bits, base, inside, first, total, RUN, LINE, WORDS, EDGE, G)
    lane = tl.arange(0, 32)[None, None, :]
    if FLOAT == tl.bfloat16:  # noqa: SIM300
        # Rotated to bit 14, a spike is 0x4000, which is 2.0: a rotation and a mask where a conversion would be slow.
        words, turns = tl.broadcast(held[:, :, None], (46 - lane) & 31)
        turned = tl.inline_asm_elementwise(
            "shf.l.wrap.b32 $0, $1, $1, $2;", "=r,r,r", [words, turns], dtype=tl.int32, is_pure=True, pack=1
        )
        twos = (turned & 0x4000).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        twos = (((held[:, :, None] >> lane) & 1) * 2).to(FLOAT)
    return tl.reshape(twos, [base.shape[0], G * 32])


@triton.jit
def _count_tile(counts, base, inside, offsets, first, K: tl.constexpr, BLOCK_K: tl.constexpr, FLOAT: tl.constexpr):
    """Return counts `[M, BLOCK_K]` at `base + offsets[first..]`."""
    k = first + tl.arange(0, BLOCK_K)
    offset = tl.load(offsets + k, mask=k < K, other=0)
    held = tl.load(counts + base[:, None] + offset[None, :], mask=inside[:, None] & (k < K)[None, :], other=0)
    return held.to(tl.float32).to(FLOAT)


@triton.jit
def _settled(acc, FLOAT: tl.constexpr):
    """Return a product's sums when they are there: a use in the same turn of a loop makes the turn wait for them.

    Else Triton 3.6 leaves products in flight into the next turn, which may overwrite the registers that hold spikes.
    """
    if FLOAT == tl.bfloat16:  # noqa: SIM300
        acc = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [acc], dtype=tl.float32, is_pure=False, pack=1)
    return acc


@triton.jit
def _product_fwd_kernel(
    source, offsets, weight, bias, out, places, total,
    ROW: tl.constexpr, LINE: tl.constexpr, STEP: tl.constexpr, RUN: tl.constexpr, WORDS: tl.constexpr,
    EDGE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, POOL: tl.constexpr,
    N: tl.constexpr, STRIDE_W: tl.constexpr, STRIDE_O: tl.constexpr,
    BITS: tl.constexpr, WHOLE: tl.constexpr, BIAS: tl.constexpr, DIVIDE: tl.constexpr, LARGE: tl.constexpr,
    M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, G: tl.constexpr, FLOAT: tl.constexpr,
):  # fmt: skip
    """out[m, n] = sum_k source[m, k] * weight[k, n] (+ bias[n], and divided by POOL**2, if asked for).

    LARGE tensors have offsets of 64 bits.
    """
    m = tl.program_id(0).to(tl.int64 if LARGE else tl.int32) * M_BLOCK + tl.arange(0, M_BLOCK)
    n = tl.program_id(1) * N_BLOCK + tl.arange(0, N_BLOCK)
    inside = m < places
    y, x = (m // WIDTH) % HEIGHT, m % WIDTH
    base = (m // (WIDTH * HEIGHT)) * ROW + y * POOL * LINE + x * STEP
    acc = tl.zeros([M_BLOCK, N_BLOCK], tl.int32 if WHOLE else tl.float32)
    for first in range(0, WORDS, G):
        k = first * 32 + tl.arange(0, G * 32)
        if WHOLE:
            a = _byte_tile(_word_tile(source, base, inside, first, total, RUN, LINE, WORDS, EDGE, G))
            real = (n < N)[:, None] & (k < WORDS * 32)[None, :]
            w = tl.load(weight + n[:, None] * (WORDS * 32) + k[None, :], mask=real, other=0)
            acc = tl.dot(a, tl.trans(w), acc, out_dtype=tl.int32)
        else:
            if BITS:
                a = _bit_tile(source, base, inside, first, total, RUN, LINE, WORDS, EDGE, G, FLOAT)
            else:
                a = _count_tile(source, base, inside, offsets, first * 32, WORDS * 32, G * 32, FLOAT)
            real = (k < WORDS * 32)[:, None] & (n < N)[None, :]
            w = tl.load(weight + k[:, None] * STRIDE_W + n[None, :], mask=real, other=0.0)
            acc = _settled(tl.dot(a, w.to(FLOAT), acc), FLOAT)
    if BITS and not WHOLE:
        acc = acc * 0.5
    if DIVIDE:
        acc = acc * (1.0 / (POOL * POOL)) if (POOL & (POOL - 1)) == 0 else tl.div_rn(acc, POOL * POOL * 1.0)
    if BIAS:
        acc = acc + tl.load(bias + n, mask=n < N, other=0.0)[None, :]
    tl.store(
        out + m[:, None] * STRIDE_O + n[None, :],
        acc.to(out.dtype.element_ty),
        mask=inside[:, None] & (n < STRIDE_O)[None, :],
    )
