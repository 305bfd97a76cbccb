"""data.keep: images thinned once a sample, by the seed; everything else stays."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data.config import DataConfig
from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Images, frames_from_dense
from bitspike.data.thinning import thinned
from bitspike.experiments.comparison import identity
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import with_values

WHITE = Images(torch.full((50, 2, 9, 7), 200, dtype=torch.uint8), torch.arange(50) % 3)


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.integers(0, 2**32 - 1))
def test_fewer_pixels_are_some_of_the_more(one, other, seed):
    less, more = (thinned(WHITE, keep, seed, "train").values for keep in sorted((one, other)))
    assert ((less == 0) | (less == 200)).all()
    assert not ((less > 0) & (more == 0)).any()


@given(st.sampled_from([0.03, 0.3, 0.9]), st.integers(0, 1000))
def test_the_share_is_as_said_and_all_channels_go_together(keep, seed):
    values = thinned(WHITE, keep, seed, "test").values
    assert torch.equal(values[:, 0], values[:, 1])
    kept = (values[:, 0] > 0).double().mean().item()
    assert abs(kept - keep) < 6 * (keep * (1 - keep) / values[:, 0].numel()) ** 0.5


def test_draws_differ_by_sample_split_and_seed_and_are_the_same_again():
    def kept(seed, split):
        return thinned(WHITE, 0.5, seed, split).values > 0

    train = kept(0, "train")
    assert torch.equal(train, kept(0, "train"))
    assert not torch.equal(train, kept(0, "test"))
    assert not torch.equal(train, kept(1, "train"))
    assert not torch.equal(train[0], train[1])


def test_all_pixels_kept_are_the_samples_themselves():
    assert thinned(WHITE, 1.0, 0, "train") is WHITE


def test_numbers_are_thinned_too():
    real = Images(torch.full((50, 1, 9, 7), 0.25), WHITE.labels)
    assert set(thinned(real, 0.5, 0, "train").values.unique().tolist()) == {0.0, 0.25}


@pytest.fixture
def own(tmp_path):
    drawn = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(path, images=drawn.integers(1, 256, (5000, 6, 6)).astype(np.uint8), labels=np.arange(5000) % 2)
    return path


def test_a_sample_is_thinned_alike_whatever_the_limit(own):
    whole = open_dataset(DataConfig(file=own, keep=0.3))
    few = open_dataset(DataConfig(file=own, keep=0.3, train_limit=100, test_limit=50))
    unthinned = open_dataset(DataConfig(file=own, train_limit=100, test_limit=50))
    assert (len(few.train), len(few.test)) == (100, 50)
    for split in ("train", "test"):
        rows = {tuple(row.tolist()) for row in getattr(whole, split).values.flatten(1)}
        mine = getattr(few, split).values
        assert all(tuple(row.tolist()) in rows for row in mine.flatten(1))
        same = getattr(unthinned, split)
        assert torch.equal(getattr(few, split).labels, same.labels)
        assert torch.equal(mine, torch.where(mine > 0, same.values, 0))
        assert 0.2 < (mine > 0).float().mean() < 0.4


def test_validation_samples_of_a_file_are_thinned_too(own):
    data = open_dataset(DataConfig(file=own, validation_file=own, keep=0.3, train_limit=10))
    assert len(data.valid) == 5000  # the limit is for training
    assert 0.2 < (data.valid.values > 0).float().mean() < 0.4
    assert not torch.equal(data.valid.values[:1000] > 0, data.test.values > 0)


def test_more_samples_than_are_drawn_at_once_are_each_drawn_once(monkeypatch):
    at_once = thinned(WHITE, 0.5, 0, "train").values
    monkeypatch.setattr("bitspike.data.thinning._AT_ONCE", 16)
    assert torch.equal(thinned(WHITE, 0.5, 0, "train").values, at_once)


def test_events_and_the_coding_task_cannot_be_thinned():
    events = frames_from_dense(torch.ones(4, 3, 2, dtype=torch.uint8), torch.arange(4))
    with pytest.raises(ValueError, match=r"data\.keep .* events"):
        thinned(events, 0.5, 0, "train")
    with pytest.raises(ValueError, match=r"data\.keep .* coding"):
        open_dataset(DataConfig(name="coding", keep=0.5))


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.1, True])
def test_the_share_is_above_0_and_at_most_1(keep):
    with pytest.raises(ValueError, match="keep"):
        DataConfig(name="fashion", keep=keep)


def test_a_run_s_identity_knows_of_it_only_if_thinned(own):
    data, spec = open_dataset(DataConfig(file=own)), preset("fashion/annealed")
    same, other = (identity(with_values(spec, [f"data.keep={keep}"]), data) for keep in ("1.0", "0.5"))
    assert same == identity(spec, data)
    assert other != same
