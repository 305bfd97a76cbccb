"""Runs as a list: a single run is a list of one, trials are trained in turn or side by side."""

import json
from dataclasses import replace

import pytest

from bitspike.experiments import runs as runs_module
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.folders import complete, resumable
from bitspike.experiments.runs import train_run, train_trials
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.train.progress import Listener
from helpers import runs


def experiment(folder, epochs):
    spec = read_experiment(runs.write_experiment(folder))
    return with_values(spec, [f"train.epochs={epochs}", "train.tensorboard=false"])


@pytest.mark.parametrize("together", [False, True])
def test_each_complete_trial_is_noted_once(tmp_path, together):
    train_trials(experiment(tmp_path, 2), tmp_path / "out", 2, RunOptions(), together=together)
    noted = []
    options = RunOptions(resume=True, listener=Listener(note=noted.append))
    train_trials(experiment(tmp_path, 1), tmp_path / "out", 2, options, together=together)
    assert noted == [
        f"{tmp_path / 'out' / f'trial-{trial}'} is complete, after 2 epochs, and is shown as it is"
        for trial in range(2)
    ]


def test_a_run_is_a_trial_alone(tmp_path):
    spec = experiment(tmp_path, 1)
    one = train_run(spec, tmp_path / "run", RunOptions())
    train_trials(spec, tmp_path / "trials", 1, RunOptions())
    other = json.loads((tmp_path / "trials" / "trial-0" / "summary.json").read_text())
    assert one["results_sha256"] == other["results_sha256"]
    assert complete(tmp_path / "run") == [tmp_path / "run"]
    assert complete(tmp_path / "trials") == [tmp_path / "trials" / "trial-0"]
    assert resumable(tmp_path / "trials")
    assert not resumable(tmp_path / "nothing")


@pytest.mark.parametrize("together", [False, True])
def test_trials_that_another_process_made_meanwhile_are_taken_as_they_are(tmp_path, monkeypatch, together):
    """The second look at a folder, when it is locked, finds them complete."""
    spec, out = experiment(tmp_path, 1), tmp_path / "out"
    locked = runs_module.locked_folder

    def another_was_here(folder, options, world):
        if not folder.summary.is_file():
            monkeypatch.setattr(runs_module, "locked_folder", locked)
            trial = int(folder.path.name.removeprefix("trial-"))
            own = spec.model_copy(update={"seed": spec.seed + trial})
            train_run(own, folder.path, RunOptions(command="another"))
        return locked(folder, options, world)

    monkeypatch.setattr(runs_module, "locked_folder", another_was_here)
    found = train_trials(spec, out, 2, replace(RunOptions(), resume=True), together=together)
    commands = [json.loads((out / f"trial-{k}" / "summary.json").read_text())["command"] for k in range(2)]
    assert commands == ["another", RunOptions().command]
    assert found["trials"] == 2
