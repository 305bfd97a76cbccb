"""The input of a run: what its folder says makes a new file the same input as in training, and nothing else does."""

import json

import numpy as np
import pytest
import torch

from bitspike.data.event_files import read_event_file
from bitspike.data.samples import Frames
from bitspike.data.torch_datasets import dataset_from_torch
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.input_rule import input_rule
from bitspike.experiments.passed import train_on
from bitspike.experiments.run_data import dataset_of
from bitspike.experiments.runs import train_run, train_trials
from bitspike.experiments.schema import read_experiment
from helpers.files import event_arrays, write_npz
from helpers.own_files import images

QUICK = "repeat = 1\n[net]\nhidden = [4]\n[train]\nepochs = 1\nbatch = 8\ntensorboard = false\n"


def trained(folder, data, net=QUICK):
    """Train a small network on the files that the lines `data` name; return the run's folder and its dataset."""
    (folder / "mine.toml").write_text(f"[data]\n{data}\n{net}")
    spec = read_experiment(folder / "mine.toml")
    train_run(spec, folder / "run", RunOptions())
    return folder / "run", dataset_of(spec, RunOptions())


def dense(samples: Frames):
    return samples.batch(torch.arange(len(samples)))[0]


def change_summary(run, change):
    summary = json.loads((run / "summary.json").read_text())
    change(summary)
    (run / "summary.json").write_text(json.dumps(summary))


SETTINGS = {
    "all found": "",
    "all given": "bin_ms = 2.0\nsteps = 5\nsensor = [9, 8]\ndownsample = 2\nclip = 1\nduration_ms = 7",
    "no polarity": "bin_ms = 3\npolarity = false",
    "time from zero": 'time_origin = "zero"\nsteps = 4',
    "other test steps": "bin_ms = 2.0\nsteps = 5\ntest_steps = 7",
}


@pytest.mark.parametrize("data", SETTINGS.values(), ids=SETTINGS)
def test_a_new_file_becomes_the_input_that_the_test_file_was(workplace, data):
    write_npz(workplace / "train.npz", **event_arrays(18, seed=1))
    write_npz(workplace / "test.npz", **event_arrays(9, seed=2))
    run, made = trained(workplace, f'file = "train.npz"\ntest_file = "test.npz"\n{data}')
    rule = input_rule(run)
    events = read_event_file(workplace / "test.npz", sensor=rule.sensor, from_first=rule.origin == "first")
    assert dense(rule.frames(events)).equal(dense(made.test))
    assert (rule.kind, rule.shape, rule.steps) == ("events", made.shape, made.test.steps)
    assert rule.polarities == (1 if "polarity" in data else 2)
    assert rule.binning == made.test.rule.binning

    change_summary(run, lambda summary: summary.pop("input"))  # a run of an earlier version
    earlier = input_rule(run)
    assert (earlier.binning, earlier.origin, earlier.shape) == (rule.binning, rule.origin, rule.shape)
    assert earlier.sensor == rule.sensor


def test_the_cache_keeps_the_rule(workplace):
    write_npz(workplace / "train.npz", **event_arrays(18, seed=1))
    data = 'file = "train.npz"\nbin_ms = 2\nsteps = 5\ntime_origin = "zero"'
    (workplace / "mine.toml").write_text(f"[data]\n{data}\n{QUICK}")
    first, second = (dataset_of(read_experiment(workplace / "mine.toml"), RunOptions()) for _ in range(2))
    assert first.train.rule == second.train.rule
    assert second.train.rule.origin == "zero"


def test_a_found_sensor_holds_the_events_of_all_splits(workplace):
    arrays = event_arrays(18, seed=1, side=6)
    write_npz(workplace / "train.npz", **arrays)
    smaller = event_arrays(9, seed=2, side=6)
    write_npz(workplace / "test.npz", **{**smaller, "x": np.minimum(smaller["x"], 4)})
    run, _ = trained(workplace, 'file = "train.npz"\ntest_file = "test.npz"\ndownsample = 3')
    assert input_rule(run).sensor == (6, 6)


def test_class_names_and_units_are_there(workplace):
    arrays = event_arrays(18, unit="t", seed=1)
    write_npz(workplace / "own.npz", **{**arrays, "labels": np.array(["tap", "rub", "hit"])[arrays["labels"] % 3]})
    run, _ = trained(workplace, 'file = "own.npz"\ntime_unit = "us"')
    rule = input_rule(run)
    assert (rule.class_names, rule.time_unit) == (("hit", "rub", "tap"), "us")


@pytest.mark.parametrize("kind", ["images", "spikes"])
def test_images_and_spikes_need_no_bins(workplace, kind):
    spikes = {"spikes": np.random.default_rng(0).integers(0, 2, (18, 6, 5)), "labels": np.arange(18) % 3}
    write_npz(workplace / "own.npz", **(images(18) if kind == "images" else spikes))
    run, made = trained(workplace, 'file = "own.npz"')
    rule = input_rule(run)
    assert (rule.kind, rule.binning, rule.origin, rule.sensor) == (kind, None, None, None)
    assert rule.steps == (made.test.steps or read_experiment(run / "experiment.toml").net.steps)
    with pytest.raises(ValueError, match=f"input_rule: the run's samples are {kind}, which are not binned"):
        rule.frames(None)
    change_summary(run, lambda summary: summary.pop("input"))
    assert input_rule(run).kind == kind


# ---- Samples passed from Python

TONIC = [("x", "i2"), ("y", "i2"), ("t", "i8"), ("p", "?")]


def recordings(count, seed=0):
    rng = np.random.default_rng(seed)
    for row in range(count):
        events = np.zeros(60, TONIC)
        events["t"] = np.sort(rng.integers(500, 9_000, 60))
        events["x"], events["y"], events["p"] = rng.integers(0, 6, 60), rng.integers(0, 4, 60), rng.integers(0, 2, 60)
        yield events, row % 2


@pytest.mark.parametrize(
    "options", [{}, {"bin_ms": 1, "steps": 8, "clip": 1, "polarity": False, "time_origin": "zero", "downsample": 2}]
)
def test_a_run_on_passed_samples_keeps_how_from_torch_binned_them(workplace, options):
    test = list(recordings(8, seed=1))
    data = dataset_from_torch(list(recordings(20)), test, name="mine", sensor=(4, 6), **options)
    quick = {"net": {"hidden": [4]}, "train": {"epochs": 1, "tensorboard": False}, "data": {"repeat": 1}}
    summary = train_on(data, workplace / "run", **quick, say=None)
    assert summary["input"]["kind"] == "events"
    rule = input_rule(workplace / "run")
    assert rule.binning == data.test.rule.binning
    assert (rule.sensor, rule.origin) == ((4, 6), options.get("time_origin", "first"))
    assert (rule.binning.polarity, rule.binning.clip) == (options.get("polarity", True), options.get("clip"))
    # the same recordings as a file
    parts = {name: np.concatenate([events[name] for events, _ in test]) for name in "xytp"}
    write_npz(workplace / "new.npz", **parts, offsets=np.arange(9) * 60, labels=np.array([label for _, label in test]))
    events = read_event_file(
        workplace / "new.npz", time_unit="us", sensor=rule.sensor, from_first=rule.origin == "first"
    )
    assert dense(rule.frames(events)).equal(dense(data.test))

    change_summary(workplace / "run", lambda summary: summary.pop("input"))
    with pytest.raises(ValueError, match=r"run: was trained on 'mine', samples passed from Python, by a version that"):
        input_rule(workplace / "run")


def test_the_best_of_trials_says_it(workplace):
    write_npz(workplace / "own.npz", **event_arrays(18, seed=1))
    (workplace / "mine.toml").write_text(f'[data]\nfile = "own.npz"\n{QUICK}')
    train_trials(read_experiment(workplace / "mine.toml"), workplace / "runs", 2, RunOptions())
    assert input_rule(workplace / "runs").kind == "events"


# ---- What does not fit


def test_what_does_not_fit_is_one_line(workplace):
    write_npz(workplace / "own.npz", **event_arrays(18, seed=1))
    run, _ = trained(workplace, 'file = "own.npz"\nsensor = [6, 6]')
    rule = input_rule(run)
    late = read_event_file(workplace / "own.npz", sensor=(6, 6), from_first=False)
    with pytest.raises(ValueError, match=r"time must count from 'first', as in the run, but .* with from_first=True$"):
        rule.frames(late)
    wide = read_event_file(workplace / "own.npz", sensor=(6, 9))
    with pytest.raises(ValueError, match=r"the sensor \[6, 9\] with 2 polarities give frames of \[2, 6, 9\], but the"):
        rule.frames(wide)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"shape": [3]}, "table input must be that of a network on"),
        ({"kind": "sound"}, "table input must be that of a network on"),
        ({"steps": 0}, "input.steps must be a whole number of at least 1, but is 0"),
        ({"bin_us": "x"}, "Binning: bin_us must be a whole number of at least 1, but is 'x'"),
        ({"sensor": 6}, "must have a sensor and a time_origin, but has 6"),
        ({"sensor": [60, 60]}, r"input.sensor must give the network's input \[2, 6, 6\], but is \[60, 60\]"),
        ({"time_origin": "noon"}, "must have a sensor and a time_origin"),
    ],
)
def test_a_damaged_table_is_one_line(workplace, change, says):
    write_npz(workplace / "own.npz", **event_arrays(18, seed=1))
    run, _ = trained(workplace, 'file = "own.npz"\nsensor = [6, 6]')
    change_summary(run, lambda summary: summary["input"].update(change))
    with pytest.raises(ValueError, match=says) as caught:
        input_rule(run)
    assert str(caught.value).startswith(f"{run / 'summary.json'}: ")
    change_summary(run, lambda summary: summary.update(input=[1]))
    with pytest.raises(ValueError, match="table input must be that of a network"):
        input_rule(run)
    change_summary(run, lambda summary: summary.update(input={}))
    with pytest.raises(ValueError, match="its table input lacks 'kind'"):
        input_rule(run)
