"""Training events mixed with those of another sample: the definition, its laws, and Triton's twin."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.ops.batches.mix import mixed_counts, same_class, taken
from bitspike.ops.dropout.reference import philox

KEY = torch.tensor(0x1234_5678_9ABC)


def counts(steps, batch, shape, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (steps, batch, *shape), dtype=torch.uint8, generator=generator).to(device)


def words(key, *counter):
    return [int(word) for word in philox(tuple(torch.tensor(c) for c in counter), torch.tensor(key))]


@given(
    st.integers(0, 2**62), st.sampled_from([0.0, 0.25, 0.9]), st.integers(1, 5), st.sampled_from([(6,), (2, 3), (1, 6)])
)
def test_channels_are_taken_as_the_docstring_says(key, mix, batch, shape):
    found = taken(batch, shape, mix, torch.tensor(key))
    for b in range(batch):
        share = (words(key, b, 0, 0, 4)[0] & 0x7FFFFFFF) % (round(mix * 65536) + 1)
        assert found[b].tolist() == [words(key, b, n, 0, 5)[0] >> 16 < share for n in range(6)]


@given(st.integers(0, 2**62), st.sampled_from([0.0, 0.25, 0.81]), st.integers(1, 5))
def test_rectangles_are_taken_as_the_docstring_says(key, mix, batch):
    found = taken(batch, (2, 10, 20), mix, torch.tensor(key)).view(batch, 2, 10, 20)
    for b in range(batch):
        drawn = [word & 0x7FFFFFFF for word in words(key, b, 0, 0, 4)]
        height, width = drawn[0] % (round(mix**0.5 * 10) + 1), drawn[1] % (round(mix**0.5 * 20) + 1)
        top, left = drawn[2] % (10 - height + 1), drawn[3] % (20 - width + 1)
        wanted = torch.zeros(2, 10, 20, dtype=torch.bool)
        wanted[:, top : top + height, left : left + width] = True
        assert found[b].equal(wanted)


def test_shares_are_even_from_0_to_the_largest():
    share = taken(4000, (1000,), 0.3, KEY).double().mean(1)
    assert share.min() < 0.005
    assert 0.28 < share.max() < 0.35
    assert abs(share.mean() - 0.15) < 5e-3
    assert abs(share.std() - 0.3 / 12**0.5) < 5e-3
    assert not taken(100, (50,), 0.0, KEY).any()


def test_rectangles_are_as_large_as_the_share_and_everywhere():
    found = taken(20_000, (8, 8), 0.25, KEY).view(-1, 8, 8).double()
    assert found.mean((1, 2)).max() == 0.25
    assert abs(found.mean((1, 2)).mean() - 0.25 / 4) < 2e-3
    assert found.mean(0).min() > 0


@pytest.mark.parametrize("shape", [(8,), (2, 4, 6), (4, 6)])
def test_a_sample_takes_from_the_one_at_its_place_from_the_end(shape):
    x = counts(3, 5, shape)
    mask = taken(5, shape, 0.9, KEY).view(5, *shape)
    assert mask.any()
    found, share = mixed_counts(x, x.flip(1), 0.9, KEY)
    for b in range(5):
        assert found[:, b].equal(torch.where(mask[b], x[:, 4 - b], x[:, b]))
    assert share.equal(mask.flatten(1).float().sum(1) / mask[0].numel())
    assert found[:, 2].equal(x[:, 2])  # the middle one is its own other


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("shape", [(7,), (64,), (1,), (1100,), (2, 5, 7), (2, 24, 30), (3, 4), (2, 50)])
@pytest.mark.parametrize(("steps", "batch"), [(17, 5), (2, 0)])
def test_the_kernel_is_the_definition(steps, batch, shape):
    pytest.importorskip("triton")
    from bitspike.ops.batches import triton
    from helpers.kernels import DEVICE

    x = counts(steps, batch, shape, DEVICE)
    key, others = KEY.to(DEVICE), counts(steps, batch, shape, DEVICE) // 2
    for passed, meant in ((None, x.flip(1)), (others, others)):
        ours, theirs = triton.mixed_counts(x, passed, 0.6, key), mixed_counts(x, meant, 0.6, key)
        assert ours[0].equal(theirs[0])
        assert ours[1].equal(theirs[1])


def test_another_sample_of_the_class_is_drawn_evenly():
    table, starts = torch.tensor([4, 7, 9, 2, 0]), torch.tensor([0, 3, 3, 5])  # class 1 has no sample
    labels = torch.tensor([0, 2]).repeat(6000)
    found = same_class(labels, table, starts, KEY)
    for label, rows in ((0, [4, 7, 9]), (2, [0, 2])):
        values, n = found[labels == label].unique(return_counts=True)
        assert values.tolist() == rows
        assert (n / 6000 - 1 / len(rows)).abs().max() < 0.03
    assert found[0] == table[(words(int(KEY), 0, 0, 0, 6)[0] & 0x7FFFFFFF) % 3]
