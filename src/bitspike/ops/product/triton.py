"""Exact products of spikes and signs: hidden spikes as bits, event counts as bytes, whole numbers out.

Each function says in a line what it computes; `plain_product` is the definition they are tested against.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton.language as tl
from torch import Tensor
from triton import next_power_of_2

from bitspike.ops.launch import FLOAT, at_once, on
from bitspike.ops.product import kernels, kernels_backward, kernels_weight
from bitspike.ops.product.geometry import WORD, Grid, Synapse, padded


class Weights(NamedTuple):
    """The signs of a synapse, folded with its pool, as products read them: `[words * 32, N]`."""

    matrix: Tensor
    offsets: Tensor | None = None  # of each k in a row of counts
    whole: Tensor | None = None  # the same as bytes [N, words * 32], for products of bits in whole numbers


class Tiles(NamedTuple):
    """The tile sizes of a product; the forward pass gives the same numbers for any sizes."""

    m: int
    n: int
    words: int
    warps: int
    stages: int


def plain_product(spikes: Tensor, signs: Tensor, pool: int) -> Tensor:
    """conv2d(spikes, signs) summed over pools, which is pool**2 times AvgPool(Conv(spikes)); spikes `[R, C, H, W]`."""
    return F.avg_pool2d(F.conv2d(spikes, signs), pool) * pool**2 if pool > 1 else F.conv2d(spikes, signs)


def pack_bits(spikes: Tensor, grid: Grid) -> Tensor:
    """Return spikes `[R, C, H, W]` as words `[R, neurons / 32]`, channels last, padding 0."""
    last = F.pad(spikes.permute(0, 2, 3, 1), (0, grid.stride - grid.channels))
    lanes = last.reshape(len(spikes), -1, WORD).to(torch.int64) << torch.arange(WORD, device=spikes.device)
    words = lanes.sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).int()


def unpack_bits(words: Tensor, grid: Grid) -> Tensor:
    """Return words `[R, neurons / 32]` as spikes `[R, C, H, W]` float32."""
    lanes = (words[..., None] >> torch.arange(WORD, device=words.device)) & 1
    last = lanes.reshape(len(words), grid.height, grid.width, grid.stride)[..., : grid.channels]
    return last.permute(0, 3, 1, 2).float()


def _steps(synapse: Synapse, counts: bool) -> tuple[int, int, int]:
    if counts:
        return synapse.kernel_height * synapse.kernel_width, synapse.kernel_width, 1
    return 1, synapse.run * WORD, synapse.source.stride


def _words(synapse: Synapse, counts: bool) -> int:
    if counts:
        return -(-synapse.source.channels * synapse.kernel_height * synapse.kernel_width // WORD)
    return synapse.words


def fold(weight: Tensor, synapse: Synapse, *, counts: bool, whole: bool = False) -> Weights:
    """Return the signs of the latent weight `[N, C, k, k]`, summed over the pool's shifts; `whole`: also as bytes."""
    n = synapse.channels
    stride = padded(n, 16)
    steps = _steps(synapse, counts)
    matrix = torch.empty(_words(synapse, counts) * WORD, stride, dtype=torch.bfloat16, device=weight.device)
    size, block = matrix.numel(), at_once(256)
    numbers = torch.empty(stride, len(matrix), dtype=torch.int8, device=weight.device) if whole else None
    kernels_weight._fold_kernel[(-(-size // block),)](
        weight, matrix, matrix if numbers is None else numbers, size, stride, n, synapse.source.channels,
        synapse.rows, synapse.columns, synapse.pool, *steps, counts, whole, block,
    )  # fmt: skip
    return Weights(matrix, _offsets(synapse, len(matrix), weight.device) if counts else None, numbers)


def fits_bytes(synapse: Synapse) -> bool:
    """Return whether folded signs fit 8 bits and outputs 16: then products of bits are of whole numbers."""
    return synapse.pool**2 < 2**7 and synapse.bound < 2**15


_known_offsets: dict[tuple[Synapse, torch.device], Tensor] = {}


def _offsets(synapse: Synapse, size: int, device: torch.device) -> Tensor:
    """Return the place in a sample `[C, H, W]` of each (channel, row, column) of the folded kernel; it is cached."""
    if (synapse, device) not in _known_offsets:
        source = synapse.source
        c, y, x = (
            torch.arange(n, device=device) for n in (source.channels, synapse.kernel_height, synapse.kernel_width)
        )
        at = (c[:, None, None] * source.height + y[:, None]) * source.width + x
        _known_offsets[synapse, device] = F.pad(at.flatten().int(), (0, size - at.numel()))
    return _known_offsets[synapse, device]


def _reach(synapse: Synapse, counts: bool) -> dict[str, int]:
    """Return the strides of a kernel's input, in words of bits or in bytes of counts."""
    source = synapse.source
    if counts:
        row, line, step = source.channels * source.height * source.width, source.width, synapse.pool
    else:
        row, line = source.neurons // WORD, source.width * source.stride // WORD
        step = synapse.pool * source.stride // WORD
    return {
        "ROW": row, "LINE": line, "STEP": step, "RUN": synapse.run, "WORDS": _words(synapse, counts),
        "EDGE": synapse.kernel_width * source.stride % WORD > 0,
        "HEIGHT": synapse.height, "WIDTH": synapse.width, "POOL": synapse.pool,
    }  # fmt: skip


def product(
    source: Tensor, weights: Weights, synapse: Synapse, out: Tensor, *,
    bias: Tensor | None = None, divide: bool = False, tiles: Tiles | None = None,
) -> Tensor:  # fmt: skip
    """out[row, y, x, :] = the synapse's output for `source [R, ...]`; whole numbers unless divided by the pool.

    Bits and weights that are there as bytes are multiplied as such, if `out` is of integers.
    """
    counts, whole = source.dtype == torch.uint8, None if out.is_floating_point() else weights.whole
    places = len(source) * synapse.height * synapse.width
    stride = out.shape[-1]
    tiles = tiles or _forward_tiles(places, stride, whole is not None)
    grid = (-(-places // tiles.m), -(-stride // tiles.n))
    kernels._product_fwd_kernel[grid](
        source, weights.offsets if counts else source, weights.matrix if whole is None else whole,
        bias if bias is not None else weights.matrix, out, places, source.numel(),
        **_reach(synapse, counts), N=synapse.channels, STRIDE_W=weights.matrix.shape[1], STRIDE_O=stride,
        BITS=not counts, WHOLE=whole is not None, BIAS=bias is not None, DIVIDE=divide, LARGE=_large(source, out),
        M_BLOCK=tiles.m, N_BLOCK=tiles.n, G=tiles.words, FLOAT=FLOAT, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    return out


def _large(*tensors: Tensor) -> bool:
    """Return whether the offsets of any of the tensors, with a tile more, need 64 bits."""
    return any(tensor.numel() + 2**20 > 2**31 for tensor in tensors)


def _forward_tiles(places: int, n: int, whole: bool) -> Tiles:
    block = 16 if n <= 16 else 32 if n <= 32 else 64 if n <= 64 else 128
    if whole and places >= 128 * 132:
        return Tiles(128, min(block, 64), 2, 4, 4)
    return Tiles(128 if places >= 128 * 132 else 64, block, 2 if places >= 128 * 132 else 4, 4, 3)


def source_grad(
    grad: Tensor, weights: Weights, synapse: Synapse, scale: float, out: Tensor, *, tiles: Tiles | None = None
) -> Tensor:
    """out[row, y, x, c] = scale * sum of grad[row, place, n] * weight: the gradient of spikes, in out's dtype."""
    if synapse.height * synapse.width == 1 and synapse.pool == 1:  # a dense layer: one place that sees all neurons
        synapse = Synapse(Grid(synapse.source.neurons), synapse.channels, 1, 1)
    source = synapse.source
    rows = len(grad) // (synapse.height * synapse.width)
    pool = synapse.pool
    down, across, columns = -(-source.height // pool), -(-source.width // pool), pool * pool * source.stride
    tiles = tiles or _source_tiles(rows, columns, across if synapse.width > 1 else 0, _much_shared_memory(grad.device))
    shared = {
        "H": source.height, "W": source.width, "C": source.stride, "RUN": synapse.run,
        "KH": synapse.kernel_height, "KW": synapse.kernel_width, "HEIGHT": synapse.height, "WIDTH": synapse.width,
        "POOL": pool, "N": synapse.channels, "STRIDE_W": weights.matrix.shape[1], "STRIDE_G": grad.shape[-1],
        "M_BLOCK": tiles.m, "K_BLOCK": 64 if synapse.channels > 32 else 32 if synapse.channels > 16 else 16,
        "FLOAT": FLOAT, "num_warps": tiles.warps, "num_stages": tiles.stages,
    }  # fmt: skip
    blocks = -(-rows // tiles.m)
    if tiles.words:
        kernels_backward._product_bwd_kernel[(blocks, down * across, -(-columns // tiles.n))](
            grad, weights.matrix, out, rows, scale, **shared, C_BLOCK=tiles.n
        )
    else:
        kernels_backward._strip_bwd_kernel[(blocks, down)](
            grad, weights.matrix, out, rows, scale, **shared, C_BLOCK=tiles.n, LARGE=_large(grad, out)
        )
    return out


@cache
def _much_shared_memory(device: torch.device) -> bool:
    """Return whether a program may have 227 KB, as on Hopper and Blackwell servers; in the interpreter it may."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device)[0] in (9, 10)


def _source_tiles(rows: int, columns: int, across: int, much_memory: bool) -> Tiles:
    """Return the tiles of a gradient of spikes; no words: a program takes a line of `across` patches of `columns`.

    That takes many rows, since programs are fewer, registers for all sums (six patches of 64 columns fill them), and
    112 KB of shared memory for weights and gradients.
    """
    block = max(16, next_power_of_2(columns))
    if across > 1 and block <= 64 and across * block <= 384 and rows >= 4096 and much_memory:
        return Tiles(64, block, 0, 4, 2)
    return Tiles(128 if rows >= 4096 else 64, 128 if columns >= 512 else min(64, max(16, columns)), 1, 4, 2)


def weight_grad(
    grad: Tensor, source: Tensor, weight: Tensor, synapse: Synapse, scale: float,
    clip: float | None = None, *, bias: bool = False, tiles: Tiles | None = None, parts: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Return the gradients of the latent weight `[N, C, k, k]`, 0 where |w| > clip, and of the bias.

    `source` is bits, counts, or float32 numbers laid out as counts, whose products are then float32's.
    """
    bits = source.dtype == torch.int32
    n, words = synapse.channels, _words(synapse, not bits)
    places = grad.numel() // grad.shape[-1]
    tiles = tiles or _gradient_tiles(n, words, bits)
    tall, wide = -(-words // tiles.words), -(-n // tiles.n)
    if parts is None:
        parts = _parts(places, n, tall * wide, tiles, bits)
    share = padded(-(-places // parts), tiles.m)
    parts = -(-places // share)
    shared = {
        **_reach(synapse, not bits), "N": n, "STRIDE_G": grad.shape[-1],
        "M_BLOCK": tiles.m, "N_BLOCK": tiles.n, "num_warps": tiles.warps, "num_stages": tiles.stages,
    }  # fmt: skip
    of_bias = None
    if bits:
        partial = torch.empty(parts, words * WORD, n, dtype=torch.float32, device=grad.device)
        sums = torch.empty(parts, n, dtype=torch.float32, device=grad.device) if bias else partial
        kernels_backward._bit_weight_bwd_kernel[(tall, wide, parts)](
            grad, source, partial, sums, places, source.numel(), share, **shared,
            SUM=bias, LARGE=_large(grad, source), G=_PAIR, CHUNKS=tiles.words // _PAIR, FLOAT=FLOAT,
        )  # fmt: skip
        of_bias = sums.sum(0) if bias else None
    else:
        partial = torch.empty(parts, n, words * WORD, dtype=torch.float32, device=grad.device)
        exact = source.dtype == torch.float32
        kernels_backward._weight_bwd_kernel[(tall, wide, parts)](
            grad, source, _offsets(synapse, words * WORD, grad.device), partial, places, share, **shared,
            PRECISION="ieee" if exact else "tf32", G=tiles.words, FLOAT=tl.float32 if exact else FLOAT,
        )  # fmt: skip
        of_bias = grad.reshape(places, -1)[:, :n].float().sum(0) if bias else None
    return unfold(partial, weight, synapse, bits, scale, clip), of_bias


_PAIR = 2  # words of one sum: 64 rows, as many as a product on a Hopper GPU has


def _gradient_tiles(n: int, words: int, bits: bool) -> Tiles:
    if not bits:
        return Tiles(128, 64, 1, 4, 3) if n > 32 else Tiles(64, 32 if n > 16 else 16, 1, 4, 3)
    if n > 32:  # so many words that few are padding, and registers suffice
        return Tiles(128, 64, min((6, 4, 2), key=lambda each: padded(words, each)), 4, 3)
    return Tiles(64, 32 if n > 16 else 16, 8 if words >= 32 else 2, 4, 3)


def _parts(places: int, n: int, programs: int, tiles: Tiles, bits: bool) -> int:
    """Return the number of parts, so that all programs run at once: 2 or 3 large ones a multiprocessor, or 8 small."""
    most, at_most = (372, 128) if bits and n > 32 else (264 if n > 32 else 1056, 64)
    return max(1, min(at_most, most // programs, -(-places // (2 * tiles.m))))


def signs(weight: Tensor) -> Tensor:
    """Return -1 or +1 by the sign of each weight, in one kernel; the plain definition is `binarize`."""
    out = torch.empty(weight.shape, dtype=torch.float32, device=weight.device)
    block = at_once(1024)
    with on(weight):
        kernels_weight._binarize_kernel[(-(-weight.numel() // block),)](weight, out, weight.numel(), block)
    return out


def unfold(partial: Tensor, weight: Tensor, synapse: Synapse, bits: bool, scale: float, clip: float | None) -> Tensor:
    """Return the latent weight's gradient from the folded matrix's, `[parts, N, K]`, or `[parts, K, N]` of bits."""
    out = torch.empty(weight.shape, dtype=torch.float32, device=weight.device)
    block = at_once(32)
    kernels_weight._unfold_kernel[(-(-weight.numel() // block),)](
        partial, weight, out, scale, clip or 0.0, len(partial), partial[0].numel() // synapse.channels,
        synapse.channels, synapse.source.channels, synapse.rows, synapse.columns, synapse.pool,
        *_steps(synapse, not bits), clip is not None, bits, block, at_once(32, 4), num_warps=2,
    )  # fmt: skip
    return out
