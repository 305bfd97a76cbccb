"""Training images moved and mirrored: the definition, its laws, and Triton's twin."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data.samples import Images
from bitspike.ops.jitter import Jitter, draws, jittered

KEY = torch.tensor(0x1234_5678_9ABC)


def one_by_one(images: torch.Tensor, jitter: Jitter, key: torch.Tensor, first_row: int = 0) -> torch.Tensor:
    """Pixel by pixel, as the docstring says."""
    out = torch.zeros_like(images)
    height, width = images.shape[2:]
    for b, (down, right, mirrored) in enumerate(
        zip(*(part.tolist() for part in draws(jitter, len(images), key, first_row)), strict=True)
    ):
        for y in range(height):
            for x in range(width):
                from_y, from_x = y - down, (width - 1 - x if mirrored else x) - right
                if 0 <= from_y < height and 0 <= from_x < width:
                    out[b, :, y, x] = images[b, :, from_y, from_x]
    return out


@given(st.integers(0, 3), st.booleans(), st.integers(0, 2**62), st.integers(1, 6))
def test_it_is_the_definition_pixel_by_pixel(shift, mirror, key, batch):
    images = torch.randint(256, (batch, 2, 5, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(key))
    jitter = Jitter(shift, mirror)
    assert jittered(images, jitter, torch.tensor(key)).equal(one_by_one(images, jitter, torch.tensor(key)))


def test_all_shifts_are_about_equally_likely_and_half_is_mirrored():
    down, right, mirrored = draws(Jitter(2, True), 50_000, KEY)
    for moved in (down, right):
        assert moved.unique().tolist() == [-2, -1, 0, 1, 2]
        assert (torch.bincount(moved + 2) / 50_000 - 0.2).abs().max() < 0.01
    assert abs(mirrored.double().mean() - 0.5) < 0.01
    assert abs(torch.corrcoef(torch.stack((down, right)).double())[0, 1]) < 0.02


def test_a_batch_split_in_two_is_the_whole_batch():
    images = torch.rand(8, 1, 6, 6)
    parts = [jittered(images[:3], Jitter(1, True), KEY), jittered(images[3:], Jitter(1, True), KEY, first_row=3)]
    assert torch.cat(parts).equal(jittered(images, Jitter(1, True), KEY))


def test_nothing_asked_for_changes_nothing():
    images = torch.rand(4, 1, 6, 6)
    assert not Jitter()
    assert jittered(images, Jitter(), KEY).equal(images)


def test_a_jittered_batch_is_the_batch_jittered():
    samples = Images(torch.randint(256, (20, 1, 8, 8), dtype=torch.uint8), torch.arange(20))
    rows = torch.tensor([3, 19, 0, 3])
    plain, labels = samples.batch(rows)
    moved, same = samples.jittered_batch(rows, Jitter(1), KEY)
    assert labels.equal(same)
    assert moved.equal(jittered(plain, Jitter(1), KEY))
    assert not moved.equal(plain)


@pytest.mark.parametrize("jitter", [Jitter(), Jitter(2), Jitter(0, True), Jitter(3, True)])
def test_the_kernel_is_the_definition(jitter):
    pytest.importorskip("triton")
    from bitspike.ops.fused.bookkeeping import gather_images
    from fused_helper import DEVICE

    values = torch.randint(256, (9, 2, 20, 29), dtype=torch.uint8, device=DEVICE)
    rows, key = torch.tensor([8, 0, 3, 3, 1], device=DEVICE), KEY.to(DEVICE)
    images, labels = gather_images(values, torch.arange(9, device=DEVICE) * 2, rows, jitter, key, 4)
    assert images.equal(jittered(values[rows], jitter, key, 4).float().div_(255))
    assert labels.tolist() == [16, 0, 6, 6, 2]
