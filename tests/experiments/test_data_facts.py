"""A run that was killed knows its classes and its input as a finished one does; an older one says that it does not."""

import json

import pytest
import safetensors.torch
from safetensors import safe_open

from bitspike.experiments import data_facts
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.exporting import described_run
from bitspike.experiments.input_rule import input_rule
from bitspike.experiments.predicting.networks import RunNetwork
from bitspike.experiments.predicting.trained_on import of_model
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment
from helpers.files import event_arrays, write_npz
from helpers.own_files import images
from helpers.shipped import event_run, image_run, train

LABELS = {"one off": [1, 2, 3], "far off": [5, 6, 7], "text": ["left", "right", "up"], "plain": [0, 1, 2]}


def labelled_run(folder, labels, more=""):
    """A run on images of three classes with these labels, and no summary: it was killed."""
    write_npz(folder / "mine.npz", **images(labels * 10, side=4))
    run = train(folder, "mine-run", f'file = "mine.npz"\n{more}', "16-8-3", "steps = 5\n")
    (run / "summary.json").unlink()
    return run


def forget(run):
    """Make the run's network one of an earlier version, which kept nothing of its data."""
    with safe_open(run / "best.safetensors", "pt") as file:
        kept = json.loads(file.metadata()["bitspike"])
    tensors = safetensors.torch.load_file(run / "best.safetensors")
    del kept["sha256"], kept["settings"]["data"]
    safetensors.torch.save_file(tensors, run / "best.safetensors", metadata={"bitspike": json.dumps(kept)})


@pytest.mark.parametrize("make", [image_run, event_run])
def test_a_killed_run_tells_what_a_finished_one_tells(workplace, make):
    run = make(workplace)
    before, model, rule = RunNetwork(run).trained_on, described_run(run).model, input_rule(run)
    (run / "summary.json").unlink()
    for file in workplace.glob("*.npz"):
        file.unlink()
    assert RunNetwork(run).trained_on == before
    assert input_rule(run) == rule
    found = described_run(run)
    assert (found.model.class_names, found.model.input, found.notes) == (model.class_names, model.input, ())
    assert of_model(found.model).labels == before.labels


def test_sensor_and_bins_that_were_found_are_kept(workplace):
    write_npz(workplace / "events.npz", **event_arrays(18, seed=1))
    run = train(workplace, "found", 'file = "events.npz"', "2Conv3-32Dense3")
    rule = input_rule(run)
    (run / "summary.json").unlink()
    assert input_rule(run) == rule


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_a_killed_run_are_those_of_its_file(workplace, cli, labels):
    run = labelled_run(workplace, labels)
    assert cli("export", run, "--to", "packed", "--out", "p.safetensors")[::2] == (0, "")
    names = [label if isinstance(label, str) else f"class {label}" for label in labels]
    for model in (run, "p.safetensors"):
        status, out, err = cli("predict", model, "mine.npz", "--json")
        assert (status, err) == (0, "")
        told = json.loads(out)
        assert list(told["samples"][0]["confidence"]) == names
        assert [each["expected"] for each in told["samples"]] == [0, 1, 2] * 10


@pytest.mark.parametrize("names", ["", 'class_names = ["a", "b", "c"]'], ids=["unnamed", "named"])
def test_an_older_killed_run_says_that_it_does_not_know(workplace, cli, names):
    run = labelled_run(workplace, [1, 2, 3], names)
    forget(run)
    what = "labels" if names else "names"
    note = f"note: {run}: the run is not finished; {what} of classes are not known; bitspike train --resume keeps them"
    status, _, err = cli("export", run, "--to", "packed", "--out", "p.safetensors")
    assert (status, err.splitlines()) == (0, [note])
    status, out, err = cli("predict", run, "mine.npz")
    assert (status, err.splitlines()[0]) == (0, note)
    assert "accuracy" not in out
    assert "accuracy" not in cli("predict", "p.safetensors", "mine.npz")[1]
    assert list(RunNetwork(run).trained_on.class_names) == (
        ["a", "b", "c"] if names else ["class 0", "class 1", "class 2"]
    )


def test_an_older_killed_run_can_go_on(workplace):
    run = labelled_run(workplace, [5, 6, 7])
    forget(run)
    (run / "last.ckpt").unlink()
    train_run(read_experiment(workplace / "mine-run.toml"), run, RunOptions(resume=True))
    assert RunNetwork(run).trained_on.labels == ("5", "6", "7")


def test_names_that_are_too_many_are_not_kept(workplace, monkeypatch):
    monkeypatch.setattr(data_facts, "MOST_FACTS", 10)
    run = labelled_run(workplace, [5, 6, 7])
    assert "names of classes are not known" in RunNetwork(run).trained_on.notes[0]


def test_damaged_facts_are_told(workplace):
    run = labelled_run(workplace, [5, 6, 7])
    with safe_open(run / "best.safetensors", "pt") as file:
        kept = json.loads(file.metadata()["bitspike"])
    tensors = safetensors.torch.load_file(run / "best.safetensors")
    del kept["sha256"]
    for bad in ("{", 7, "[1]", '{"class_names": 7, "input": 7}'):
        kept["settings"]["data"] = bad
        safetensors.torch.save_file(tensors, run / "best.safetensors", metadata={"bitspike": json.dumps(kept)})
        if bad == "[1]":
            assert RunNetwork(run).trained_on.notes
            continue
        with pytest.raises(ValueError, match=r"best\.safetensors") as caught:
            RunNetwork(run)
        assert "\n" not in str(caught.value)
