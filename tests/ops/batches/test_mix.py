"""Training events mixed with those of another sample: the definition, its laws, and Triton's twin."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.ops.batches.mix import mixed_counts, taken
from bitspike.ops.dropout.reference import philox

KEY = torch.tensor(0x1234_5678_9ABC)


def counts(steps, batch, channels, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (steps, batch, channels), dtype=torch.uint8, generator=generator).to(device)


@given(st.integers(0, 2**62), st.sampled_from([0.0, 0.25, 0.9]), st.integers(1, 5))
def test_channels_are_taken_as_the_docstring_says(key, mix, batch):
    key = torch.tensor(key)

    def word(*counter):
        return int(philox(tuple(torch.tensor(c) for c in counter), key)[0])

    found = taken(batch, 6, mix, key)
    for b in range(batch):
        share = (word(b, 0, 0, 4) & 0x7FFFFFFF) % (round(mix * 65536) + 1)
        assert found[b].tolist() == [word(b, n, 0, 5) >> 16 < share for n in range(6)]


def test_shares_are_even_from_0_to_the_largest():
    share = taken(4000, 1000, 0.3, KEY).double().mean(1)
    assert share.min() < 0.005
    assert 0.28 < share.max() < 0.35
    assert abs(share.mean() - 0.15) < 5e-3
    assert abs(share.std() - 0.3 / 12**0.5) < 5e-3
    assert not taken(100, 50, 0.0, KEY).any()


def test_a_sample_takes_channels_of_the_one_at_its_place_from_the_end():
    x = counts(3, 5, 8)
    mask = taken(5, 8, 0.9, KEY)
    assert mask.any()
    found, share = mixed_counts(x, 0.9, KEY)
    for b in range(5):
        for n in range(8):
            assert found[:, b, n].equal(x[:, 4 - b if mask[b, n] else b, n])
    assert share.equal(mask.float().sum(1) / 8)
    assert found[:, 2].equal(x[:, 2])  # the middle one is its own other


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(("steps", "batch", "channels"), [(17, 5, 7), (3, 4, 64), (20, 1, 1), (2, 3, 1100), (4, 0, 3)])
def test_the_kernel_is_the_definition(steps, batch, channels):
    pytest.importorskip("triton")
    from bitspike.ops.batches import triton
    from helpers.kernels import DEVICE

    x = counts(steps, batch, channels, DEVICE)
    ours, theirs = (mix(x, 0.6, KEY.to(DEVICE)) for mix in (triton.mixed_counts, mixed_counts))
    assert ours[0].equal(theirs[0])
    assert ours[1].equal(theirs[1])
