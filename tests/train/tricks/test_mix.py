"""Training samples mixed: inputs and labels alike, and what cannot be mixed is refused."""

import pytest
import torch

from bitspike import build
from bitspike.data.samples import Images, frames_from_dense
from bitspike.ops.batches.mix import mixed_counts, same_class
from bitspike.train.config import TrainConfig
from bitspike.train.tricks.mix import MixSamples
from bitspike.train.tricks.trick import Setup
from helpers.frames import dense

CONFIG = TrainConfig(lr=1.0, loss="cross_entropy", mix=0.5)
FRAMES = frames_from_dense(dense(6, 4, (9,)), torch.tensor([3, 1, 0, 2, 1, 0]))


def test_inputs_and_labels_are_mixed_alike():
    rows, key = torch.tensor([5, 0, 3, 1]), torch.tensor(11)
    trick = MixSamples(Setup(build("9-4"), FRAMES, CONFIG, 0, 1))
    found, labels = trick.batch(FRAMES.batch, rows, first_row=0, key=key)
    plain, own = FRAMES.batch(rows)
    wanted, share = mixed_counts(plain, plain.flip(1), 0.5, key)
    assert share.any()
    assert found.equal(wanted)
    assert labels.own.equal(own)
    assert labels.other.equal(own.flip(0))
    assert labels.share.equal(share)


def test_samples_of_one_class_are_mixed_and_keep_their_label():
    rows, key = torch.tensor([5, 0, 3, 1]), torch.tensor(11)
    config = TrainConfig(lr=1.0, loss="count", mix=0.9, mix_with="class")
    trick = MixSamples(Setup(build("9-4"), FRAMES, config, 0, 1))
    found, labels = trick.batch(FRAMES.batch, rows, first_row=0, key=key)
    plain, own = FRAMES.batch(rows)
    table, starts = FRAMES.labels.argsort(stable=True), torch.tensor([0, 2, 4, 5, 6])
    others = same_class(own, table, starts, key)
    assert FRAMES.labels[others].equal(own)
    assert not others.equal(rows)
    assert found.equal(mixed_counts(plain, FRAMES.batch(others)[0], 0.9, key)[0])
    assert not found.equal(plain)
    assert labels.equal(own)


def test_several_processes_are_refused():
    with pytest.raises(ValueError, match=r"train.mix .* but 2 processes share the batch; train in one process"):
        MixSamples(Setup(build("9-4"), FRAMES, CONFIG, 0, 1, processes=2))


def refusal(samples):
    return MixSamples.refusal(CONFIG, build("9-4"), samples, "Toys")


def test_only_events_are_mixed():
    assert refusal(FRAMES) is None
    assert refusal(frames_from_dense(dense(6, 4, (1, 3, 3)), torch.zeros(6))) is None
    images = Images(torch.rand(3, 1, 3, 3), torch.zeros(3))
    assert refusal(images) == "train.mix belongs to events, but Toys holds none; set it to 0"
