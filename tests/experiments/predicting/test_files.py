"""Files as samples: they are what training reads from the same files, and nothing is changed without a note."""

import numpy as np
import pytest
import torch

from bitspike.data.datasets import open_dataset
from bitspike.deploy.model import InputModel
from bitspike.experiments.exporting import described_run
from bitspike.experiments.predicting.file_samples import ReadOptions
from bitspike.experiments.predicting.files import read_files
from bitspike.experiments.predicting.image_files import fitted
from bitspike.experiments.predicting.networks import RunNetwork
from bitspike.experiments.predicting.trained_on import TrainedOn, of_model
from bitspike.experiments.schema import read_experiment
from helpers.files import event_arrays, write_hdf5, write_npz
from helpers.shipped import EVENTS, event_run, image_run, spike_run

RULES = {
    "everything given": (EVENTS, "2Conv3-8Dense3"),
    "one polarity": (f"{EVENTS}\npolarity = false", "2Conv3-8Dense3"),
    "from zero": (f'{EVENTS}\ntime_origin = "zero"', "2Conv3-8Dense3"),
    "other steps for the test": (f"{EVENTS}\ntest_steps = 3", "2Conv3-8Dense3"),
    "a found sensor and found bins": ("downsample = 3", "2Conv2-2Dense3"),
}


def dense(samples):
    return samples.batch(torch.arange(len(samples)))[0]


@pytest.mark.parametrize("rule", RULES)
def test_events_have_the_frames_of_training(workplace, rule):
    """Of the run, and of the model that is exported from it, whose sensor may be a rule of thumb."""
    run = event_run(workplace, *RULES[rule])
    trained_on = open_dataset(read_experiment(run / "experiment.toml").data).test
    for what in (RunNetwork(run).trained_on, of_model(described_run(run).model)):
        given = read_files([workplace / "test.npz"], what, ReadOptions())
        assert torch.equal(dense(given.samples), dense(trained_on))
        assert given.expected == trained_on.labels.tolist()
        assert given.names[3] == f"{workplace / 'test.npz'}[3]"


@pytest.mark.parametrize(("make", "file", "axis"), [(image_run, "images.npz", 0), (spike_run, "spikes.npz", 1)])
def test_images_and_spikes_are_those_of_training(workplace, make, file, axis):
    run = make(workplace)
    data = open_dataset(read_experiment(run / "experiment.toml").data)
    given = read_files([workplace / file], RunNetwork(run).trained_on, ReadOptions())

    def rows(samples):
        return [tuple(each) for each in dense(samples).transpose(0, axis).flatten(1).tolist()]

    assert sorted(rows(given.samples)) == sorted([*rows(data.train), *rows(data.test)])
    assert given.notes == []


def test_files_without_labels_and_in_hdf5(workplace):
    run = event_run(workplace)
    arrays = event_arrays(4, side=8, unit="t")
    unlabelled = {name: each for name, each in arrays.items() if name != "labels"}
    write_npz(workplace / "new.npz", **unlabelled)
    write_hdf5(workplace / "new.h5", **unlabelled)
    given = read_files([workplace / "new.npz", workplace / "new.h5"], RunNetwork(run).trained_on, ReadOptions())
    assert given.expected == [None] * 8
    both = dense(given.samples)
    assert torch.equal(both[:, :4], both[:, 4:])
    assert both.sum() > 0


def trained_on(shape, kind="image", **more):
    return TrainedOn("some", InputModel(kind, **more), shape, ("a", "b"), ("0", "1"))


def test_a_sensor_that_is_not_known_is_as_large_as_the_frames_allow(workplace):
    what = trained_on((2, 2, 2), "events", bin_us=1000, steps=4, downsample=3)
    arrays = event_arrays(2, side=8)
    write_npz(workplace / "fits.npz", **arrays)
    assert read_files([workplace / "fits.npz"], what, ReadOptions()).samples.shape == (2, 2, 2)
    write_npz(workplace / "large.npz", **{**arrays, "x": arrays["x"] + np.uint8(2)})
    with pytest.raises(ValueError, match="the largest x is 9, but the network was trained on some, a sensor of 8 x 8"):
        read_files([workplace / "large.npz"], what, ReadOptions())


# ---- Images that do not fit


def test_colours_become_grey_by_their_luma():
    colours = torch.tensor([200, 100, 50], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 4, 4)
    grey, notes = fitted(colours, (1, 4, 4))
    assert grey.unique().tolist() == [round(0.299 * 200 + 0.587 * 100 + 0.114 * 50)]
    assert notes == ["colours became grey (0.299 red + 0.587 green + 0.114 blue)"]
    three, notes = fitted(grey, (3, 4, 4))
    assert (three.shape, len(notes)) == ((1, 3, 4, 4), 1)
    with pytest.raises(ValueError, match="images have 2 channels, but the network takes 1"):
        fitted(torch.zeros(1, 2, 4, 4), (1, 4, 4))


def test_images_keep_their_proportions_and_the_colour_of_their_border():
    image = torch.full((1, 1, 8, 16), 40, dtype=torch.uint8)
    image[:, :, 3:5, 6:10] = 240
    small, notes = fitted(image, (1, 8, 8))
    assert notes == ["16 x 8 pixels were scaled to 8 x 8"]
    assert small[0, 0, :2].unique().tolist() == [40]  # filled up above and below
    assert small[0, 0, -2:].unique().tolist() == [40]
    assert small.max() > 100
    large, _ = fitted(image.float() / 255, (1, 16, 32))
    assert large.dtype == torch.float32
    assert large.max() <= 1


def test_images_that_fit_are_not_touched():
    image = torch.randint(0, 256, (3, 1, 5, 7), dtype=torch.uint8)
    same, notes = fitted(image, (1, 5, 7))
    assert torch.equal(same, image)
    assert notes == []


def test_bytes_and_numbers_are_joined(workplace):
    write_npz(workplace / "bytes.npz", images=np.full((1, 4, 4), 51, np.uint8))
    write_npz(workplace / "numbers.npz", images=np.full((2, 4, 4), 0.5, np.float32))
    given = read_files([workplace / "bytes.npz", workplace / "numbers.npz"], trained_on((1, 4, 4)), ReadOptions())
    assert dense(given.samples)[:, 0, 0, 0].tolist() == pytest.approx([0.2, 0.5, 0.5])


def test_metadata_from_outside_is_not_trusted(workplace):
    """A packed file's free text may be anything."""
    model = described_run(image_run(workplace)).model
    for notes in ({"labels": "[", "logit_scale": "nan"}, {"labels": '{"a": 1}', "logit_scale": "x", "time_unit": "h"}):
        model.metadata.clear()
        model.metadata.update(notes)
        found = of_model(model)
        assert (found.labels, found.logit_scale, found.time_unit) == ((), 10.0, None)
        assert found.numbered([0, 3]) == [None, None]


# ---- What is told


def a_line(workplace, times, offsets, unit="t_us"):
    """Read samples of events at unit 0, for a network that takes 4 units for 100 ms; return the notes."""
    what = trained_on((4,), "events", bin_us=10_000, steps=10, sensor=(4,))
    arrays = {unit: np.array(times), "x": np.zeros(len(times), int), "offsets": np.array(offsets)}
    write_npz(workplace / "a.npz", **arrays)
    given = read_files([workplace / "a.npz"], what, ReadOptions(time_unit=None if unit == "t_us" else "us"))
    return [note.removeprefix(str(workplace)) for note in given.notes]


def test_samples_without_events_are_told(workplace):
    assert a_line(workplace, [0, 50_000, 0, 60_000], [0, 2, 2, 4]) == ["/a.npz, sample 1: holds no events"]
    *three, rest = a_line(workplace, [], [0] * 6)
    assert [note.split(":")[0] for note in three] == [f"/a.npz, sample {row}" for row in range(3)]
    assert rest == "/a.npz: 2 more samples hold no events"


def test_a_unit_of_time_that_is_too_small_is_told(workplace):
    says = "/a.npz, sample 0: has all events within the first 1% of the network's 100 ms; "
    asks = f"{says}is the unit of t another (--time-unit)?"
    assert a_line(workplace, [0, 500, 1000, 0, 500, 1001], [0, 3, 6], unit="t") == [asks]
    assert a_line(workplace, [0, 0], [0, 2]) == [f"{says}are its t_us microseconds?"]
    assert a_line(workplace, [7], [0, 1]) == []  # one event


def test_labels_may_be_the_names_of_classes():
    what = TrainedOn("some", InputModel("image"), (1, 4, 4), ("coat", "1", "x"), ("1", "3", "5"))
    assert what.numbered(["coat", "x", "1", "5", 3, "sneaker"]) == [0, 2, 0, 2, 1, None]  # labels come before names
    assert TrainedOn("some", InputModel("image"), (1, 4, 4), ("7",), ("a",)).numbered([7]) == [None]


def test_one_bright_border_of_several(workplace):
    what = TrainedOn("mnist", InputModel("image"), (1, 4, 4), ("a", "b"), ("0", "1"))
    for bright, says in ((1, "the border of 1 image is bright"), (2, "the borders of 2 images are bright")):
        images = np.zeros((3, 4, 4), np.uint8)
        images[:bright] = 255
        write_npz(workplace / "a.npz", images=images)
        (note,) = read_files([workplace / "a.npz"], what, ReadOptions()).notes
        assert says in note
