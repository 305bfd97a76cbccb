"""Training samples jittered: images and events each take what belongs to them, and evaluations none of it."""

import pytest
import torch

from bitspike import build
from bitspike.data.samples import Images, frames_from_dense
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.ops.batches.event_jitter import EventJitter
from bitspike.ops.batches.jitter import Jitter
from bitspike.train.config import TrainConfig
from bitspike.train.tricks.jitter import JitterSamples
from bitspike.train.tricks.trick import Setup
from helpers import runs
from helpers.frames import dense

KEY, ROWS = torch.tensor(77), torch.tensor([2, 0, 2])


def refuse(rows):
    raise AssertionError("the samples are taken from their set")


def test_images_are_moved_and_multiplied():
    images = Images(torch.rand(4, 1, 5, 5), torch.arange(4))
    trick = JitterSamples(Setup(build("25-3"), images, TrainConfig(lr=1.0, shift=1, contrast=0.5), 0, 1))
    found, labels = trick.batch(refuse, ROWS, first_row=3, key=KEY)
    assert found.equal(images.jittered_batch(ROWS, Jitter(1, 0.5), KEY, 3)[0])
    assert labels.equal(ROWS)


def test_events_are_moved_and_stretched():
    frames = frames_from_dense(dense(4, 6, (7,)), torch.arange(4))
    config = TrainConfig(lr=1.0, shift=2, stretch=0.25, time_shift=1)
    trick = JitterSamples(Setup(build("7-3"), frames, config, 0, 1))
    found, labels = trick.batch(refuse, ROWS, first_row=3, key=KEY)
    assert found.equal(frames.jittered_batch(ROWS, EventJitter(2, 0.25, 1), KEY, 3)[0])
    assert labels.equal(ROWS)


def test_what_holds_no_images_is_refused(tmp_path):
    spec = with_values(preset("coding/annealed"), ["train.contrast=0.3"])
    with pytest.raises(ValueError, match=r"train.contrast belongs to images, but .* holds none"):
        train_run(spec, tmp_path / "run", RunOptions())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", ["train.stretch=0.1", "train.time_shift=2"])
def test_times_do_not_change_where_labels_are_times(tmp_path, setting):
    spec = with_values(preset("coding/annealed"), [setting])
    with pytest.raises(ValueError, match=rf"{setting.partition('=')[0]} changes the times of events, but the labels"):
        train_run(spec, tmp_path / "run", RunOptions())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", ["train.stretch=0.1", "train.time_shift=2"])
def test_what_holds_no_events_is_refused(tmp_path, setting):
    spec = with_values(read_experiment(runs.write_experiment(tmp_path)), [setting])
    with pytest.raises(ValueError, match=rf"{setting.partition('=')[0]} belongs to events, but .* holds none"):
        train_run(spec, tmp_path / "run", RunOptions())
    assert not (tmp_path / "run").exists()
