"""Samples and splits: what is gathered equals the dense definition; nothing is in two splits."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import Images
from bitspike.data.coding import coding_task
from bitspike.data.samples import frames_from_dense
from bitspike.data.splits import held_out, limited
from helpers.frames import dense


@given(
    st.integers(1, 5), st.integers(1, 6), st.sampled_from([(3,), (2, 2, 3), (1, 1, 1)]), st.integers(0, 99), st.data()
)
def test_a_batch_of_frames_is_the_dense_tensor_time_first(samples, steps, shape, seed, data):
    values = dense(samples, steps, shape, seed, density=data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    frames = frames_from_dense(values, torch.arange(samples))
    rows = torch.tensor(data.draw(st.lists(st.integers(0, samples - 1), min_size=1, max_size=7)))
    x, labels = frames.batch(rows)
    assert x.dtype == torch.float32
    assert torch.equal(x, values[rows].transpose(0, 1).float())
    gathered = frames._gathered(rows)  # the GPU's way
    assert gathered.dtype == torch.uint8
    assert torch.equal(gathered.view_as(x), x.to(torch.uint8))
    assert torch.equal(labels, rows)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.data())
def test_selected_samples_are_the_samples(rows, data):
    values = dense(6, 3, (4,))
    images = Images(torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1), torch.arange(6))
    for samples in (frames_from_dense(values, torch.arange(6)), images):
        chosen = samples.select(torch.tensor(rows))
        assert len(chosen) == len(rows)
        assert chosen.shape == samples.shape
        at = torch.tensor(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4)))
        for got, wanted in zip(chosen.batch(at), samples.batch(torch.tensor(rows)[at]), strict=True):
            assert torch.equal(got, wanted)


def test_images_are_bytes_until_they_are_gathered():
    images = Images(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), torch.tensor([3]))
    x, labels = images.batch(torch.tensor([0, 0]))
    assert x.dtype == torch.float32
    assert torch.equal(x, torch.tensor([0.0, 0.2, 1.0]).expand(2, 1, 1, 3))
    assert labels.tolist() == [3, 3]


def test_images_given_as_numbers_stay_as_they_are():
    images = Images(torch.tensor([[[[0.25]]]]), torch.tensor([0]))
    assert images.batch(torch.tensor([0]))[0].item() == 0.25


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.floats(0.01, 0.9), st.integers(0, 9))
def test_a_split_parts_every_class_alike(labels, share, seed):
    labels = torch.tensor(labels)
    kept, held = held_out(labels, share, seed)
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(labels)))
    for label in labels.unique():
        count, out = int((labels == label).sum()), int((labels[held] == label).sum())
        assert out == (0 if count == 1 else min(max(round(share * count), 1), count - 1))
    again = held_out(labels, share, seed)
    assert torch.equal(again[0], kept)
    assert torch.equal(again[1], held)


def test_a_split_depends_on_its_seed():
    labels = torch.zeros(100, dtype=torch.long)
    assert not torch.equal(held_out(labels, 0.1, 0)[1], held_out(labels, 0.1, 1)[1])


def test_nothing_is_held_out_of_a_share_of_zero():
    assert len(held_out(torch.zeros(10, dtype=torch.long), 0.0, 0)[1]) == 0


@pytest.mark.parametrize("limit", [None, 10, 99])
def test_no_limit_keeps_all(limit):
    assert torch.equal(limited(10, limit, 0), torch.arange(10))


def test_a_limit_draws_without_repeating():
    rows = limited(1000, 50, 3)
    assert len(rows.unique()) == 50
    assert torch.equal(rows, rows.sort().values)
    assert not torch.equal(rows, torch.arange(50))
    assert torch.equal(rows, limited(1000, 50, 3))


def test_the_coding_task_is_one_sample_drawn_by_the_seed():
    first, again, other = coding_task(0), coding_task(0), coding_task(1)
    x, label = first.train.batch(torch.tensor([0]))
    assert x.shape == (100, 1, 100)
    assert label.item() == 75
    assert set(x.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(x, again.test.batch(torch.tensor([0]))[0])
    assert not torch.equal(x, other.train.batch(torch.tensor([0]))[0])
