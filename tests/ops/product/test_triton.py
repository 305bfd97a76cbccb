"""Products in Triton: exact, as their gradients are but for the order of sums; signs are binarize's."""

import pytest
import torch

import bitspike

pytest.importorskip("triton")
from triton import next_power_of_2

from bitspike.ops.product import triton
from bitspike.ops.product.geometry import Grid, Synapse, aligned_grid, padded
from bitspike.ops.product.triton import (
    Tiles,
    _source_tiles,
    fits_bytes,
    fold,
    pack_bits,
    plain_product,
    product,
    signs,
    source_grad,
    unpack_bits,
    weight_grad,
)
from helpers.kernels import DEVICE, off, rand

pytestmark = pytest.mark.usefixtures("poisoned")

SHAPES = [  # channels, height, width, filters, kernel, pool, rows; kernel 0: dense
    (16, 12, 12, 20, 5, 2, 2),
    (3, 7, 7, 5, 3, 2, 3),
    (5, 9, 8, 7, 3, 3, 2),
    (4, 6, 6, 10, 3, 1, 2),
    (3, 5, 5, 6, 3, 1, 5),
    (20, 3, 3, 11, 0, 1, 4),
    (33, 1, 1, 20, 0, 1, 5),
    (1, 1, 1, 1, 0, 1, 1),
]
LARGE = (SHAPES[0], SHAPES[2], SHAPES[3])  # which take the interpreter longest


def make(shape, counts):
    c, h, w, n, k, pool, rows = shape
    grid = Grid(c, h, w) if counts else aligned_grid(c, h, w, pool, k == 0)
    synapse = Synapse(grid, n, k or h, k or w, pool)
    weight = rand(n, c, synapse.rows, synapse.columns) - 0.5
    if counts:
        x = (rand(rows, c, h, w, seed=1) * 256).floor()
        return synapse, weight, x, x.to(torch.uint8).view(rows, -1)
    x = (rand(rows, c, h, w, seed=1) < 0.3).float()
    return synapse, weight, x, pack_bits(x, grid)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_exact_and_padding_is_zero(shape, counts):
    synapse, weight, x, source = make(shape, counts)
    out = torch.full((len(x), synapse.height, synapse.width, padded(synapse.channels, 16)), 7.0, device=DEVICE)
    product(source, fold(weight, synapse, counts=counts), synapse, out, tiles=Tiles(128, 32, 8, 4, 1))
    wanted = plain_product(x.double(), bitspike.binarize(weight).double(), synapse.pool)
    assert torch.equal(out[..., : synapse.channels].permute(0, 3, 1, 2).double(), wanted)
    assert not out[..., synapse.channels :].any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("large", [False, True])
def test_products_in_bytes_are_exact(shape, large, monkeypatch):
    """The random signs and spikes of odd shapes leave no term of a bit's order, a word's place or the pool unseen."""
    monkeypatch.setattr(triton, "_large", lambda *tensors: large)
    synapse, weight, x, source = make(shape, counts=False)
    out = torch.full(
        (len(x), synapse.height, synapse.width, padded(synapse.channels, 16)), 7, dtype=torch.int16, device=DEVICE
    )
    folded = fold(weight, synapse, counts=False, whole=True)
    assert torch.equal(folded.whole.sum(1).float(), folded.matrix.float().sum(0))
    product(source, folded._replace(matrix=folded.matrix * torch.nan), synapse, out)
    wanted = plain_product(x.double(), bitspike.binarize(weight).double(), synapse.pool)
    assert torch.equal(out[..., : synapse.channels].permute(0, 3, 1, 2).double(), wanted)
    assert not out[..., synapse.channels :].any()


def test_bytes_hold_what_fits():
    grid = Grid(16, 14, 14)
    assert fits_bytes(Synapse(grid, 4, 3, 3, 11))
    assert not fits_bytes(Synapse(grid, 4, 3, 3, 12))
    assert fits_bytes(Synapse(Grid(2**15 - 1), 4, 1, 1))
    assert not fits_bytes(Synapse(Grid(2**15), 4, 1, 1))


@pytest.mark.parametrize(
    ("shape", "clip"),
    [
        *((shape, None) for shape in SHAPES),
        *((shape, 0.25) for shape in SHAPES if shape not in LARGE),
        *(pytest.param(shape, 0.25, marks=pytest.mark.slow) for shape in LARGE),
    ],
)
@pytest.mark.parametrize("counts", [False, True])
def test_gradients_of_products(shape, counts, clip):
    synapse, weight, x, source = make(shape, counts)
    grad = rand(len(x) * synapse.height * synapse.width, synapse.channels, seed=2) - 0.5
    grad = grad.bfloat16().float()  # so that what is left is the order of sums
    spikes, latent = x.clone().requires_grad_(), weight.clone().requires_grad_()
    wanted = plain_product(spikes, bitspike.binarize(latent, clip), synapse.pool)
    wanted.backward(grad.view(len(x), synapse.height, synapse.width, -1).permute(0, 3, 1, 2))
    tiles = Tiles(32, 32, 8, 4, 1)
    got, bias = weight_grad(grad, source, weight, synapse, 1.0, clip, bias=True, tiles=tiles, parts=3)
    assert off(got, latent.grad) < 1e-5 or not latent.grad.any()
    assert off(bias, grad.sum(0)) < 1e-5
    if not counts:
        out = torch.empty(len(x), synapse.source.neurons, device=DEVICE)
        source_grad(grad, fold(weight, synapse, counts=False), synapse, 1.0, out, tiles=Tiles(16, 64, 1, 4, 1))
        shaped = out.view(len(x), synapse.source.height, synapse.source.width, -1)[..., : synapse.source.channels]
        assert off(shaped.permute(0, 3, 1, 2), spikes.grad) < 1e-5
        columns = synapse.pool**2 * synapse.source.stride
        if synapse.width > 1:  # a line of patches at once
            lines = torch.empty_like(out)
            folded = fold(weight, synapse, counts=False)
            source_grad(grad, folded, synapse, 1.0, lines, tiles=Tiles(16, next_power_of_2(columns), 0, 4, 1))
            assert off(lines, out) < 1e-5


def test_lines_of_patches_are_for_many_rows_and_few_columns():
    assert _source_tiles(4096, 64, 6, True) == Tiles(64, 64, 0, 4, 2)
    others = ((4095, 64, 6, True), (4096, 65, 6, True), (4096, 64, 7, True), (4096, 64, 0, True), (4096, 64, 6, False))
    assert all(_source_tiles(*case).words for case in others)


def test_bits_and_back():
    grid = aligned_grid(5, 3, 3, 2, False)
    spikes = (rand(4, 5, 3, 3) < 0.5).float()
    assert torch.equal(unpack_bits(pack_bits(spikes, grid), grid), spikes)


@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply")  # the interpreter's 0 * inf
def test_signs_are_binarize():
    weight = torch.tensor([[0.5, -0.0, 0.0, -1e-30], [torch.nan, -2.0, torch.inf, 3.0]], device=DEVICE)
    plain = torch.tensor([[1.0, 1, 1, -1], [torch.nan, -1, torch.nan, 1]], device=DEVICE)
    torch.testing.assert_close(signs(weight), plain, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(bitspike.binarize(weight.cpu()), plain.cpu(), rtol=0, atol=0, equal_nan=True)
