"""Glances: a network shown an image at several places is the same network asked about each, and the spikes added up."""

import numpy as np
import pytest
import torch

import bitspike
from bitspike.experiments.assembly import RunOptions, build_network
from bitspike.experiments.comparison import differences, identity
from bitspike.experiments.runs import train_run
from bitspike.experiments.saved import evaluate_run, load_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.image_steps import PLACES
from bitspike.nn.glances import at_places, in_time
from bitspike.suggest import measure_drive
from bitspike.train.tricks.recalibrate import recalibrate
from helpers import runs

NOTATION = "4Conv3-AP2-100Dense5"


def network(glances, steps, **options):
    generator = torch.Generator().manual_seed(0)
    return bitspike.build(
        NOTATION, (1, 12, 12), steps=steps, glances=glances, theta=0.5, generator=generator, **options
    )


def images(count=3, size=12, seed=1):
    return torch.rand(count, 1, size, size, generator=torch.Generator().manual_seed(seed))


def moved(image, down, right):
    """`[C, H, W]` moved, one pixel at a time, zeros where nothing comes from."""
    out = torch.zeros_like(image)
    for y in range(image.shape[1]):
        for x in range(image.shape[2]):
            if 0 <= y - down < image.shape[1] and 0 <= x - right < image.shape[2]:
                out[:, y, x] = image[:, y - down, x - right]
    return out


def test_the_places_are_the_image_itself_and_its_neighbours_in_this_order():
    up, left, right, down = (-1, 0), (0, -1), (0, 1), (1, 0)
    assert PLACES[1] == ((0, 0),)
    assert PLACES[5] == ((0, 0), up, left, right, down)
    assert PLACES[9] == (*PLACES[5], (-1, -1), (-1, 1), (1, -1), (1, 1))


@pytest.mark.parametrize("glances", [1, 5, 9])
def test_images_are_moved_to_each_place(glances):
    x = images(2, size=5)
    expected = [moved(image, *place) for image in x for place in PLACES[glances]]
    assert torch.equal(at_places(x, glances), torch.stack(expected))


def test_time_is_one_glance_after_the_other():
    values = torch.arange(2 * 10 * 3).view(2, 10, 3)  # two steps, two samples of five glances
    ordered = in_time(values, 5)
    assert ordered.shape == (10, 2, 3)
    for glance in range(5):
        for t in range(2):
            assert torch.equal(ordered[2 * glance + t], values[t, glance::5])


@pytest.mark.parametrize("glances", [5, 9])
@pytest.mark.parametrize("norm", [None, "shared", "step"])
def test_a_network_sees_each_place_from_rest(glances, norm):
    many, one = network(glances, 4 * glances, norm=norm).eval(), network(1, 4, norm=norm).eval()
    x = images()
    expected = [one.run(torch.stack([moved(image, *place) for image in x])) for place in PLACES[glances]]
    layers = many.run(x)
    assert 0 < layers[-1].spikes.mean() < 1
    for i, layer in enumerate(layers):
        assert torch.equal(layer.spikes, torch.cat([outputs[i].spikes for outputs in expected]))
        assert torch.equal(layer.membrane, torch.cat([outputs[i].membrane for outputs in expected]))
        assert all(a is b is None or torch.equal(a, b) for a, b in zip(layer.state, expected[-1][i].state, strict=True))
    assert torch.equal(many(x).spikes, layers[-1].spikes)
    for counts, layer in zip(many.observe(x).counts(), layers, strict=True):
        assert torch.equal(counts, layer.spikes.sum(0))
    with many.record() as recorded:
        many(x)
    assert [len(output.spikes) for output in recorded.values()] == [4 * glances] * 2


def test_gradients_are_those_of_all_places_together():
    many, one = network(5, 20), network(1, 4)
    x = images()
    many(x).spikes.sum(0).square().sum().backward()
    spikes = [one(torch.stack([moved(image, *place) for image in x])).spikes for place in PLACES[5]]
    torch.cat(spikes).sum(0).square().sum().backward()
    for ours, theirs in zip(many.parameters(), one.parameters(), strict=True):
        assert ours.grad.abs().max() > 0
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_no_image_at_all():
    seen = network(5, 20).eval().observe(images(0))
    assert seen.output.spikes.shape == (20, 0, 5)
    assert [counts.shape[0] for counts in seen.counts()] == [0, 0]


def test_other_steps_for_a_call_are_shared_out_too():
    net = network(5, 20)
    assert len(net(images(), steps=10).spikes) == 10
    with pytest.raises(ValueError, match=r"multiple of the 5 glances, but are 12; 10 would do"):
        net(images(), steps=12)


def test_statistics_are_those_of_a_batch_at_all_places():
    class Three:
        labels, shape, steps = torch.zeros(3, dtype=torch.long), (1, 12, 12), None

        def __len__(self):
            return 3

        def batch(self, rows):
            return images()[rows], self.labels[rows]

    class Moved(Three):
        labels = torch.zeros(15, dtype=torch.long)

        def __len__(self):
            return 15

        def batch(self, rows):
            return at_places(images(), 5)[rows], self.labels[rows]

    for norm in ("shared", "step"):
        many, one = network(5, 20, norm=norm), network(1, 4, norm=norm)
        recalibrate(many, Three(), 3, seed=0)
        recalibrate(one, Moved(), 15, seed=0)
        for ours, theirs in zip(many.buffers(), one.buffers(), strict=True):
            torch.testing.assert_close(ours, theirs)


def test_the_drive_is_that_of_all_places():
    ours, theirs = measure_drive(network(5, 20), images()), measure_drive(network(1, 4), at_places(images(), 5))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.peaks, b.peaks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"glances": 4, "steps": 20}, "build: glances must be 1, 5 or 9, but is 4"),
        ({"glances": 5.0, "steps": 20}, "build: glances must be 1, 5 or 9, but is 5.0"),
        ({"glances": True, "steps": 20}, "build: glances must be 1, 5 or 9, but is True"),
        ({"glances": 9, "steps": 20}, "build: steps must be a multiple of the 9 glances, but are 20; 18 would do"),
        ({"glances": 9, "steps": 4}, "multiple of the 9 glances, but are 4; 9 would do"),
    ],
)
def test_what_cannot_be_shown_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        bitspike.build(NOTATION, (1, 12, 12), **options)


def test_glances_are_for_images():
    with pytest.raises(ValueError, match=r"glances are for images \[channels, rows, columns\], but .* \[30\]"):
        bitspike.build("30Dense5", (30,), glances=5)
    net = network(5, 20)
    with pytest.raises(ValueError, match="5 glances are for static images, but the input is a sequence"):
        net(images().expand(20, 3, 1, 12, 12))
    with pytest.raises(ValueError, match="each of 5 glances begins at rest; leave states out"):
        net.run(images(), states=[None, None])
    with pytest.raises(ValueError, match="SpikingNetwork: glances must be 1, 5 or 9, but is 4"):
        net.glances = 4


def test_a_network_says_how_often_it_looks():
    assert "steps=20, glances=5" in repr(network(5, 20))
    assert "glances" not in repr(network(1, 20))


def test_steps_that_glances_do_not_divide_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(ValueError, match=r"net.steps must be a multiple of net.glances, 5, but is 12; 10 would do"):
        spec_of(tmp_path, "net.glances=5", "net.steps=12")


def spec_of(folder, *settings):
    return with_values(
        read_experiment(runs.write_experiment(folder)), ["train.tensorboard=false", "net.steps=10", *settings]
    )


def test_a_run_with_glances_is_another_experiment_and_comes_back_as_it_was(tmp_path):
    plain, looking = spec_of(tmp_path), spec_of(tmp_path, "net.glances=5")
    data = bitspike.data.datasets.open_dataset(plain.data)
    assert identity(plain, data) != identity(looking, data)
    assert differences(plain, looking) == ["net.glances was 1, is 5"]
    assert build_network(looking, data.shape).glances == 5
    done = train_run(looking, tmp_path / "run", RunOptions())
    net = load_run(tmp_path / "run")
    assert net.glances == 5
    assert evaluate_run(tmp_path / "run", "test", RunOptions()).result.accuracy == done["accuracy"]
    assert evaluate_run(tmp_path / "run", "test", RunOptions(), steps=5).network.steps == 5
    with pytest.raises(ValueError, match="multiple of the 5 glances, but are 7"):
        evaluate_run(tmp_path / "run", "test", RunOptions(), steps=7)


def test_events_are_not_looked_at_twice(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "spikes.npz", spikes=rng.random((20, 10, 1, 8, 8)) < 0.2, labels=np.arange(20) % 3)
    settings = (f"data.file={tmp_path / 'spikes.npz'}", "net.glances=5")
    with pytest.raises(ValueError, match=r"net.glances belongs to images, but .* holds none; set it to 1"):
        train_run(spec_of(tmp_path, *settings), tmp_path / "run", RunOptions())
