"""What a run's network says of spikes, for every readout."""

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from bitspike.cli import app
from bitspike.data import Spikes
from bitspike.data.binning import bin_events
from bitspike.data.config import DataConfig
from bitspike.data.datasets import open_dataset
from bitspike.data.speech.spike_files import DIGITS, as_events
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment
from bitspike.experiments.speech import Heard, SpeechNetwork, class_names, from_first, hear, joined
from helpers.spoken import TOML, words, write_words
from helpers.wav import write_word


def made(folder, *, epochs=8, **net):
    settings = [f"net.{name}={value}" for name, value in net.items()]
    spec = read_experiment(write_words(folder), [f"train.epochs={epochs}", *settings])
    train_run(spec, folder / "run", RunOptions())
    return SpeechNetwork(folder / "run")


def samples(*indices):
    """Some of the samples that the network was trained on."""
    all_ = words(2)
    cut = [slice(all_.offsets[i], all_.offsets[i + 1]) for i in indices]
    return as_events([Spikes(all_.t[each], all_.x[each], 0.3) for each in cut])


@pytest.mark.parametrize("net", [{}, {"readout": "membrane"}, {"delays": 3}])
def test_the_scores_of_every_network(workplace, net):
    network = made(workplace, **net)
    found = network.predict(Heard(["a", "b"], samples(0, 3), []))
    frames = torch.zeros(30, 2, 35)
    events = from_first(samples(0, 3))  # as the reader of one's own files has them
    sample = np.repeat([0, 1], np.diff(events.offsets))
    np.add.at(frames.numpy(), (events.t // 10_000, sample, events.x // 20), 1)
    scores = network.net.scores(frames)
    for row, each in enumerate(found):
        assert each.label == int(scores[row].argmax())
        assert list(each.confidence.values()) == pytest.approx((10 * scores[row]).softmax(0).tolist(), abs=1e-5)
        assert [spikes.shape for spikes in each.layers.values()] == [(30, 8), (30, 2)]
        assert each.missed == 0
        assert each.answer == f"class {each.label}"


BINS = "bin_ms = 10.0\nsteps = 30\n"
RULES = {
    "as they come": "",
    "from the first spike": 'time_origin = "first"',
    "from zero": 'time_origin = "zero"',
    "other steps for the test": "test_steps = 21",
    "fewer milliseconds": "duration_ms = 77.5\nclip = 1",
    "default bins": "",
    "default bins from zero": 'time_origin = "zero"',
}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    """A folder with two recordings and their file of `bitspike encode`, and what `bitspike predict` hears of them."""
    folder = tmp_path_factory.mktemp("encoded")
    for name, pitch in (("low", 150), ("high", 300)):
        write_word(folder / f"{name}.wav", seconds=0.15, pitch=pitch)
    recordings = [folder / "low.wav", folder / "high.wav"]
    labels = ["--label", "0", "--label", "1"]
    made = CliRunner().invoke(app, ["encode", *map(str, recordings), *labels, "--out", str(folder / "both.npz")])
    assert made.exit_code == 0, made.output
    return folder, hear(recordings)


@pytest.mark.parametrize("rule", RULES)
def test_a_recording_has_the_frames_that_training_reads_from_its_encoded_file(workplace, encoded, rule):
    """Whatever the run says of time: where it begins, how long bins are, and where frames end."""
    folder, heard = encoded
    files = f'file = "{folder}/both.npz"\ntest_file = "{folder}/both.npz"\nsensor = [700]\n{RULES[rule]}'
    text = TOML.format(data=files, classes=2)
    (workplace / "both.toml").write_text(text.replace(BINS, "") if "default" in rule else text)
    spec = read_experiment(workplace / "both.toml")
    train_run(spec, workplace / "run", RunOptions())
    trained_on = open_dataset(spec.data).test.batch(torch.arange(2))[0]

    network = SpeechNetwork(workplace / "run")
    frames, first, zero = (
        bin_events(events, network.binning).batch(torch.arange(2))[0]
        for events in (network.in_its_time(heard.events), from_first(heard.events), heard.events)
    )
    assert torch.equal(frames, trained_on)
    assert not torch.equal(first, zero)
    scores = network.net.scores(trained_on.float())
    for row, found in enumerate(network.predict(heard)):
        assert list(found.confidence.values()) == pytest.approx((10 * scores[row]).softmax(0).tolist(), abs=1e-6)


def test_silence_has_no_answer_and_late_spikes_are_missed(workplace):
    network = made(workplace, epochs=1)  # its biases do not make it fire yet
    silent = Spikes(np.zeros(0, np.int64), np.zeros(0, np.uint16), 0.3)
    late = Spikes(np.array([0, 299_999, 300_000, 400_000]), np.zeros(4, np.uint16), 0.5)
    nothing, half = network.predict(Heard(["silent", "late"], as_events([silent, late]), []))
    assert (nothing.label, nothing.answer, nothing.missed) == (None, "no answer", 0)
    assert list(nothing.confidence.values()) == [0.5, 0.5]
    assert half.missed == 0.5


def test_several_sets_of_spikes_are_joined():
    whole = joined([samples(0), samples(1, 2)])
    expected = samples(0, 1, 2)
    assert np.array_equal(whole.t, expected.t)
    assert np.array_equal(whole.offsets, expected.offsets)


def test_time_from_the_first_event():
    parts = [([5, 9, 30], 3), ([], 0), ([7], 1)]
    events = as_events([Spikes(np.array(t, dtype=np.int64), np.zeros(n, np.uint16), 0.3) for t, n in parts])
    assert from_first(events).t.tolist() == [0, 4, 25, 0]
    assert from_first(as_events([Spikes(np.zeros(0, np.int64), np.zeros(0, np.uint16), 0.3)])).t.tolist() == []


def test_names_of_classes():
    assert class_names(DataConfig(name="shd"), 20) == list(DIGITS)
    assert class_names(DataConfig(name="dvs-sign"), 3) == ["class 0", "class 1", "class 2"]
    own = DataConfig(file="own.npz")
    assert class_names(own, 4, ["no", "yes", "7"]) == ["no", "yes", "class 7", "class 3"]
    assert class_names(own, 1, ["no", "yes"]) == ["no"]
