"""Gradients of products in Triton: of spikes, and of weights. Rows and words are those of kernels.py."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.product.kernels import _count_tile, _settled


@triton.jit
def _product_bwd_kernel(
    grad, weight, out, rows, scale,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, RUN: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, POOL: tl.constexpr,
    N: tl.constexpr, STRIDE_W: tl.constexpr, STRIDE_G: tl.constexpr,
    M_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr, K_BLOCK: tl.constexpr, FLOAT: tl.constexpr,
):  # fmt: skip
    """out[row, y, x, c] = scale * sum over places p and n of grad[row, p, n] * weight[(y, x, c) as seen from p, n].

    A program takes a patch of POOL x POOL places (their POOL * POOL * C neurons are its columns) of M_BLOCK rows: which
    places of the output reach it is then the same for all of its rows.
    """
    across: tl.constexpr = (W + POOL - 1) // POOL
    row = tl.program_id(0).to(tl.int64) * M_BLOCK + tl.arange(0, M_BLOCK)
    py, px = tl.program_id(1) // across, tl.program_id(1) % across
    column = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    dy, dx, c = column // (POOL * C), (column // C) % POOL, column % C
    acc = tl.zeros([M_BLOCK, C_BLOCK], tl.float32)
    qh: tl.constexpr = (KH + POOL - 1) // POOL
    qw: tl.constexpr = (KW + POOL - 1) // POOL
    for qy in range(tl.maximum(0, py - HEIGHT + 1), tl.minimum(qh - 1, py) + 1):
        for qx in range(tl.maximum(0, px - WIDTH + 1), tl.minimum(qw - 1, px) + 1):
            ky, kx = qy * POOL + dy, qx * POOL + dx
            k = ky * (RUN * 32) + kx * C + c
            real = (column < POOL * POOL * C) & (ky < KH) & (kx < KW)
            place = (row * HEIGHT + (py - qy)) * WIDTH + (px - qx)
            for first in range(0, N, K_BLOCK):
                n = first + tl.arange(0, K_BLOCK)
                g = tl.load(
                    grad + place[:, None] * STRIDE_G + n[None, :],
                    mask=(row < rows)[:, None] & (n < N)[None, :],
                    other=0.0,
                ).to(FLOAT)
                w = tl.load(
                    weight + k[:, None] * STRIDE_W + n[None, :], mask=real[:, None] & (n < N)[None, :], other=0.0
                )
                acc = tl.dot(g, tl.trans(w.to(FLOAT)), acc)
    y, x = py * POOL + dy, px * POOL + dx
    there = (column < POOL * POOL * C) & (y < H) & (x < W)
    target = ((row[:, None] * H + y[None, :]) * W + x[None, :]) * C + c[None, :]
    tl.store(out + target, (acc * scale).to(out.dtype.element_ty), mask=(row < rows)[:, None] & there[None, :])


@triton.jit
def _replaced(values, AT: tl.constexpr, new):
    """Return the tuple with `new` at place AT."""
    made = ()
    for i in tl.static_range(len(values)):
        if i == AT:
            made += (new,)
        else:
            made += (values[i],)
    return made


@triton.jit
def _strip_bwd_kernel(
    grad, weight, out, rows, scale,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, RUN: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, POOL: tl.constexpr,
    N: tl.constexpr, STRIDE_W: tl.constexpr, STRIDE_G: tl.constexpr, LARGE: tl.constexpr,
    M_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr, K_BLOCK: tl.constexpr, FLOAT: tl.constexpr,
):  # fmt: skip
    """Compute what `_product_bwd_kernel` does; a program takes a whole line of patches, with a sum for each.

    So a gradient is read once for all patches of the line that it reaches.
    """
    across: tl.constexpr = (W + POOL - 1) // POOL
    down: tl.constexpr = (H + POOL - 1) // POOL
    qh: tl.constexpr = (KH + POOL - 1) // POOL
    qw: tl.constexpr = (KW + POOL - 1) // POOL
    row = tl.program_id(0).to(tl.int64 if LARGE else tl.int32) * M_BLOCK + tl.arange(0, M_BLOCK)
    turn = tl.program_id(1)  # lines in the middle come first: they have most work
    py = tl.where(turn % 2 == 0, down // 2 + turn // 2, down // 2 - 1 - turn // 2)
    column = tl.arange(0, C_BLOCK)
    dy, dx, c = column // (POOL * C), (column // C) % POOL, column % C
    zero = tl.zeros([M_BLOCK, C_BLOCK], tl.float32)
    accs = ()
    for _ in tl.static_range(across):
        accs += (zero,)
    top = tl.maximum(0, py - HEIGHT + 1)
    tall = tl.minimum(qh - 1, py) + 1 - top
    blocks: tl.constexpr = (N + K_BLOCK - 1) // K_BLOCK
    for j in range(tall * blocks):
        qy = top + j // blocks
        n = (j % blocks) * K_BLOCK + tl.arange(0, K_BLOCK)
        weights = ()
        for qx in tl.static_range(qw):
            ky, kx = qy * POOL + dy, qx * POOL + dx
            real = (column < POOL * POOL * C) & (ky < KH) & (kx < KW)
            k = ky * (RUN * 32) + kx * C + c
            w = tl.load(weight + k[:, None] * STRIDE_W + n[None, :], mask=real[:, None] & (n < N)[None, :], other=0.0)
            weights += (tl.trans(w.to(FLOAT)),)
        for x in tl.static_range(WIDTH):
            place = (row * HEIGHT + (py - qy)) * WIDTH + x
            inside = (row < rows)[:, None] & (n < N)[None, :]
            g = tl.load(grad + place[:, None] * STRIDE_G + n[None, :], mask=inside, other=0.0).to(FLOAT)
            for qx in tl.static_range(qw):
                accs = _replaced(accs, x + qx, tl.dot(g, weights[qx], accs[x + qx]))
    for px in tl.static_range(across):
        y, x = py * POOL + dy, px * POOL + dx
        there = (column < POOL * POOL * C) & (y < H) & (x < W)
        target = ((row[:, None] * H + y[None, :]) * W + x[None, :]) * C + c[None, :]
        value = (accs[px] * scale).to(out.dtype.element_ty)
        tl.store(out + target, value, mask=(row < rows)[:, None] & there[None, :])


@triton.jit
def _weight_bwd_kernel(
    grad, source, offsets, out, places, share,
    ROW: tl.constexpr, LINE: tl.constexpr, STEP: tl.constexpr, RUN: tl.constexpr, WORDS: tl.constexpr,
    EDGE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, POOL: tl.constexpr,
    N: tl.constexpr, STRIDE_G: tl.constexpr, PRECISION: tl.constexpr,
    M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, G: tl.constexpr, FLOAT: tl.constexpr,
):  # fmt: skip
    """out[part, n, k] = sum over the part's rows m of grad[m, n] * counts[m, k]; a part is `share` rows."""
    n = tl.program_id(1) * N_BLOCK + tl.arange(0, N_BLOCK)
    part = tl.program_id(2).to(tl.int64)
    first = tl.program_id(0) * G
    acc = tl.zeros([N_BLOCK, G * 32], tl.float32)
    for begin in range(0, share, M_BLOCK):
        m = part * share + begin + tl.arange(0, M_BLOCK)
        inside = (m < places) & (begin + tl.arange(0, M_BLOCK) < share)
        y, x = (m // WIDTH) % HEIGHT, m % WIDTH
        base = (m // (WIDTH * HEIGHT)) * ROW + y * POOL * LINE + x * STEP
        a = _count_tile(source, base, inside, offsets, first * 32, WORDS * 32, G * 32, FLOAT)
        g = tl.load(grad + m[:, None] * STRIDE_G + n[None, :], mask=inside[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(tl.trans(g.to(FLOAT)), a, acc, input_precision=PRECISION)
    k = first * 32 + tl.arange(0, G * 32)
    at = (part * N + n[:, None]) * (WORDS * 32) + k[None, :]
    tl.store(out + at, acc, mask=(n < N)[:, None] & (k < WORDS * 32)[None, :])


@triton.jit
def _twos(words, FLOAT: tl.constexpr):
    """Return spikes times 2, `[G * 32, M]`, from pairs of words `[G, M / 2]` of rows m and m + 1.

    The pair's bits of one number go into the two halves of a register, which is a rotation and a mask.
    """
    even, odd = words
    low, high = (even & 0xFFFF) | (odd << 16), ((even >> 16) & 0xFFFF) | (odd & -65536)
    both = tl.where(tl.arange(0, 2)[None, :, None] == 0, low[:, None, :], high[:, None, :])
    turns = (46 - tl.arange(0, 16)) & 31
    held, turns = tl.broadcast(both[:, :, None, :], turns[None, None, :, None])
    if FLOAT == tl.bfloat16:  # noqa: SIM300
        turned = tl.inline_asm_elementwise(
            "shf.l.wrap.b32 $0, $1, $1, $2;", "=r,r,r", [held, turns], dtype=tl.int32, is_pure=True, pack=1
        )
    else:
        plain, by = held.to(tl.uint32, bitcast=True), turns.to(tl.uint32)
        turned = ((plain << by) | (plain >> ((32 - by) & 31))).to(tl.int32, bitcast=True)
    pairs = tl.reshape(turned & 0x40004000, [even.shape[0] * 32, even.shape[1]])
    halves = tl.join(pairs.to(tl.int16), (pairs >> 16).to(tl.int16))  # 0x4000 is 2.0 in bfloat16
    twos = halves.to(tl.bfloat16, bitcast=True) if FLOAT == tl.bfloat16 else (halves >> 13).to(FLOAT)  # noqa: SIM300
    return tl.reshape(twos, [even.shape[0] * 32, even.shape[1] * 2])


@triton.jit
def _bit_weight_bwd_kernel(
    grad, bits, out, bias, places, total, share,
    ROW: tl.constexpr, LINE: tl.constexpr, STEP: tl.constexpr, RUN: tl.constexpr, WORDS: tl.constexpr,
    EDGE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, POOL: tl.constexpr,
    N: tl.constexpr, STRIDE_G: tl.constexpr, SUM: tl.constexpr, LARGE: tl.constexpr,
    M_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr, G: tl.constexpr, CHUNKS: tl.constexpr, FLOAT: tl.constexpr,
):  # fmt: skip
    """out[part, k, n] = sum over the part's rows m of spikes[m, k] * grad[m, n]; a part is `share` rows.

    bias[part, n] = sum over them of grad[m, n], if asked for. `share` is a multiple of M_BLOCK. A program has CHUNKS
    sums of G words each, so that a gradient is read once for all of them; spikes stay in registers.
    """
    n = tl.program_id(1) * N_BLOCK + tl.arange(0, N_BLOCK)
    part = tl.program_id(2).to(tl.int64 if LARGE else tl.int32)
    first = tl.program_id(0) * (G * CHUNKS)
    zero = tl.zeros([G * 32, N_BLOCK], tl.float32)
    accs = ()
    for _ in tl.static_range(CHUNKS):
        accs += (zero,)
    sums = tl.zeros([M_BLOCK, N_BLOCK], tl.float32)
    # A tile of whole samples has the same places each time.
    samples: tl.constexpr = M_BLOCK % (WIDTH * HEIGHT) == 0
    for begin in range(0, share, M_BLOCK):
        start = part * share + begin
        m = start + tl.arange(0, M_BLOCK)
        even = 2 * tl.arange(0, M_BLOCK // 2)
        if samples:
            passed = start // (WIDTH * HEIGHT) * ROW
        else:
            passed = start * 0
            even = start + even
        y, x = (even // WIDTH) % HEIGHT, even % WIDTH
        base = (even // (WIDTH * HEIGHT)) * ROW + y * POOL * LINE + x * STEP
        if WIDTH % 2 == 0:
            next_base = base + STEP
        else:
            y, x = ((even + 1) // WIDTH) % HEIGHT, (even + 1) % WIDTH
            next_base = ((even + 1) // (WIDTH * HEIGHT)) * ROW + y * POOL * LINE + x * STEP
        left = places - start if samples else places + start * 0
        g = tl.load(grad + m[:, None] * STRIDE_G + n[None, :], mask=(m < places)[:, None] & (n < N)[None, :], other=0.0)
        if SUM:
            sums += g.to(tl.float32)
        g = g.to(FLOAT)
        made = ()
        for chunk in tl.static_range(CHUNKS):
            word = first + chunk * G + tl.arange(0, G)
            at = ((word // RUN) * LINE + word % RUN)[:, None]
            here, there = (even < left)[None, :], (even + 1 < left)[None, :]
            if WORDS % (G * CHUNKS) != 0:
                here, there = here & (word < WORDS)[:, None], there & (word < WORDS)[:, None]
            if EDGE:
                here = here & (passed + at + base[None, :] < total)
                there = there & (passed + at + next_base[None, :] < total)
            words = (
                tl.load(bits + passed + at + base[None, :], mask=here, other=0),
                tl.load(bits + passed + at + next_base[None, :], mask=there, other=0),
            )
            made += (tl.dot(_twos(words, FLOAT), g, accs[chunk]),)
        accs = ()
        for chunk in tl.static_range(CHUNKS):
            accs += (_settled(made[chunk], FLOAT),)
    if SUM and tl.program_id(0) == 0:
        tl.store(bias + part * N + n, tl.sum(sums, axis=0), mask=n < N)
    for chunk in tl.static_range(CHUNKS):
        k = (first + chunk * G) * 32 + tl.arange(0, G * 32)
        at = (part.to(tl.int64) * (WORDS * 32) + k[:, None]) * N + n[None, :]
        tl.store(out + at, accs[chunk] * 0.5, mask=(k < WORDS * 32)[:, None] & (n < N)[None, :])
