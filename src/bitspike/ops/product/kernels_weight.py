"""Triton kernels that turn latent weights into the matrix of a product, and the matrix's gradient back."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit
def _fold_kernel(
    weight, out, whole, size, STRIDE: tl.constexpr,
    N: tl.constexpr, C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, POOL: tl.constexpr,
    C_STEP: tl.constexpr, Y_STEP: tl.constexpr, X_STEP: tl.constexpr, COUNTS: tl.constexpr, WHOLE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """out[c*C_STEP + y*Y_STEP + x*X_STEP, n] = sum over the pool of sign(weight[n, c, y - dy, x - dx]); 0 elsewhere.

    WHOLE: also `whole`, the same as bytes in the order of kernels.py. Bytes have no NaN: a bad weight is 0 there.
    """
    height: tl.constexpr = KH + POOL - 1
    width: tl.constexpr = KW + POOL - 1
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    n, k = i % STRIDE, i // STRIDE
    if COUNTS:  # channels first
        c, y, x = k // C_STEP, (k % C_STEP) // Y_STEP, k % Y_STEP
    else:
        y, x, c = k // Y_STEP, (k % Y_STEP) // X_STEP, k % X_STEP
    inside = (i < size) & (n < N) & (c < C) & (y < height) & (x < width)
    total = tl.zeros([BLOCK], tl.float32)
    for d in tl.static_range(POOL * POOL):
        ky, kx = y - d // POOL, x - d % POOL
        real = inside & (ky >= 0) & (ky < KH) & (kx >= 0) & (kx < KW)
        w = tl.load(weight + ((n * C + c) * KH + ky) * KW + kx, mask=real, other=0.0)
        total += tl.where(real, tl.where(w >= 0, 1.0, -1.0) + 0.0 * w, 0.0)  # a weight that is not finite gives NaN
    tl.store(out + i, total.to(out.dtype.element_ty), mask=i < size)
    if WHOLE:
        bit = k % 32
        at = n * (size // STRIDE) + k - bit + (bit % 8) * 4 + bit // 8
        tl.store(whole + at, tl.where(total == total, total, 0.0).to(tl.int8), mask=i < size)


@triton.jit
def _unfold_kernel(
    partial, weight, out, scale, clip, PARTS: tl.constexpr, K: tl.constexpr,
    N: tl.constexpr, C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, POOL: tl.constexpr,
    C_STEP: tl.constexpr, Y_STEP: tl.constexpr, X_STEP: tl.constexpr, CLIP: tl.constexpr,
    BITS: tl.constexpr, BLOCK: tl.constexpr, P_BLOCK: tl.constexpr,
):  # fmt: skip
    """out[n, c, y, x] = scale * sum over parts and pool of partial[part, n, k(c, y + dy, x + dx)]; 0 if |w| > clip.

    Gradients of BITS lie as partial[part, k, n].
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if BITS:  # neighbours in the matrix are neighbours here
        n, c, x, y = i % N, (i // N) % C, (i // (N * C)) % KW, i // (N * C * KW)
    else:
        x, y, c, n = i % KW, (i // KW) % KH, (i // (KW * KH)) % C, i // (KW * KH * C)
    inside = i < N * C * KH * KW
    totals = tl.zeros([P_BLOCK, BLOCK], tl.float32)
    for begin in range(0, PARTS, P_BLOCK):
        part = begin + tl.arange(0, P_BLOCK)[:, None]
        for d in tl.static_range(POOL * POOL):
            k = c * C_STEP + (y + d // POOL) * Y_STEP + (x + d % POOL) * X_STEP
            at = (part * K + k[None, :]) * N + n[None, :] if BITS else (part * N + n[None, :]) * K + k[None, :]
            totals += tl.load(partial + at, mask=(part < PARTS) & inside[None, :], other=0.0)
    total = tl.sum(totals, axis=0) * scale
    at = ((n * C + c) * KH + y) * KW + x
    if CLIP:
        w = tl.load(weight + at, mask=inside, other=0.0)
        total = tl.where(tl.abs(w) <= clip, total, 0.0)
    tl.store(out + at, total, mask=inside)


@triton.jit
def _signs_kernel(
    weight, out, N: tl.constexpr, K: tl.constexpr, STRIDE: tl.constexpr, HALVES: tl.constexpr, BLOCK: tl.constexpr
):
    """out[n, k] = sign(weight[n, k]) for k < K, 0 for padding up to STRIDE; rows n >= N are 0.

    With two HALVES a row goes on with the same times 2**-11.
    """
    n = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(weight + n * K + k, mask=(k < K) & (n < N), other=0.0)
    sign = tl.where((k < K) & (n < N), tl.where(w >= 0, 1.0, -1.0) + 0.0 * w, 0.0)
    at = n * (STRIDE * HALVES) + k
    tl.store(out + at, sign.to(out.dtype.element_ty), mask=k < STRIDE)
    if HALVES > 1:
        tl.store(out + at + STRIDE, (sign * (1.0 / 2048.0)).to(out.dtype.element_ty), mask=k < STRIDE)


@triton.jit
def _widen_kernel(source, out, K: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """out[row, k] = source[row, k] in out's dtype, 0 for padding up to STRIDE."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + row * K + k, mask=k < K, other=0).to(tl.float32)
    tl.store(out + row * STRIDE + k, value.to(out.dtype.element_ty), mask=k < STRIDE)


@triton.jit
def _binarize_kernel(weight, out, size, BLOCK: tl.constexpr):
    """out = -1 or +1 by the sign of the weight, zero is +1; NaN where the weight is not finite."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(weight + i, mask=i < size, other=0.0)
    tl.store(out + i, tl.where(w >= 0, 1.0, -1.0) + 0.0 * w, mask=i < size)
