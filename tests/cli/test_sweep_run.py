"""`bitspike sweep run` as a user sees it."""

import json
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import optuna
import pytest
from rich.console import Console

from bitspike.cli import sweep_run
from bitspike.cli.sweep_table import SweepDisplay, _table, best_of
from bitspike.experiments.sweep.driver import Snapshot
from bitspike.experiments.sweep.facts import Standing
from bitspike.experiments.sweep.local_worker import LocalWorker
from helpers import sweeps


@pytest.fixture
def here(workplace):
    sweeps.write_search(workplace)
    return workplace


def test_a_study_from_the_first_trial_to_its_experiment(cli, here):
    status, out, err = cli("sweep", "run", "search.toml", "--trials", "2", "--epochs", "1", "--device", "cpu")
    assert status == 0
    lines = err.splitlines()
    assert lines[0] == (
        "search: 3 parameters by tpe, seed 0, for accuracy on validation samples -> sweeps/search (journal.log)"
    )
    assert [line.split()[:2] for line in lines[1:]] == [["trial", "0"], ["trial", "1"]]
    assert lines[-1].endswith("  2/2")
    told = out.splitlines()
    assert told[0].startswith("search: 2 trials complete; ")
    assert told[1].startswith("best: trial ")
    assert told[-1] == "next: bitspike sweep show sweeps/search; bitspike sweep best sweeps/search > my.toml"
    status, out, _ = cli("sweep", "show", "sweeps/search", "--json")
    assert (status, json.loads(out)["complete"]) == (0, 2)
    status, out, _ = cli("sweep", "best", "sweeps/search")
    assert status == 0
    (here / "mine.toml").write_text(out)
    status, out, _ = cli("train", "mine.toml", "--out", "again", "--device", "cpu", "--json")
    assert status == 0
    best = json.loads((here / "again" / "summary.json").read_text())["valid_accuracy"]
    assert f"{best:.2%}".removesuffix("%") in told[1]


def test_a_folder_with_a_blank_is_in_quotes_in_what_comes_next(cli, here):
    run = ("sweep", "run", "search.toml", "--trials", "1", "--epochs", "1", "--device", "cpu", "--out", "my search")
    assert cli(*run)[1].splitlines()[-1] == (
        "next: bitspike sweep show 'my search'; bitspike sweep best 'my search' > my.toml"
    )
    assert "next      bitspike sweep best 'my search' > my.toml" in cli("sweep", "show", "my search")[1]
    assert "# Written by bitspike sweep best 'my search' --trial 0;" in cli("sweep", "best", "my search")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("search.toml", "--set", "train.protocol=paper"), "a search needs train.protocol = 'holdout', which keeps"),
        (("coding/annealed",), "a search needs train.protocol = 'holdout'"),
        (("search.toml", "--second", "bits", "--pruner", "median"), "--pruner median judges one figure, but --second"),
        (("fashion/annealedd",), "did you mean 'fashion/annealed'?"),
        (("search.toml", "--set", "train.lrr=3"), "--set train.lrr=3: no field is named"),
        (("mnist/quick", "--set", "data.name=fashon"), "unknown data set 'fashon': did you mean 'fashion'?"),
        (("mnist/quick",), "mnist"),  # its files are not here
        (("search.toml", "--set", "net.notation=65-16-3"), "65 inputs, but 64 arrive (1x8x8); write 64Dense16Dense3"),
        (("search.toml", "--set", "net.theta=[1, 1, 1]"), "net.theta must be one threshold, or one a neuron layer, 2"),
        (("search.toml", "--set", "data.validation_groups=[1]"), "data.validation_groups names groups, but those of"),
        (("search.toml", "--set", "data.file=own.npy"), "own.npy does not exist; did you mean own.npz?"),
    ],
)
def test_refusals(cli, here, arguments, said):
    status, _, err = cli("sweep", "run", *arguments, "--trials", "1", "--device", "cpu", "--out", "out")
    assert status == 1
    assert err.count("\n") == 1
    assert said in err
    assert not (here / "out").exists()


def test_what_does_not_fit_the_data_is_told_as_training_tells_it(cli, here):
    told = [
        cli(*command, "--set", "net.notation=64-16-2", "--device", "cpu", "--out", "out")
        for command in (("train", "search.toml"), ("sweep", "run", "search.toml", "--trials", "1"))
    ]
    assert told[0] == told[1]
    assert told[0][0] == 1


def test_a_choice_that_does_not_fit_the_data_is_found_before_the_study_is_made(cli, here):
    text = (here / "search.toml").read_text()
    (here / "choices.toml").write_text(text + '[search."net.notation"]\nchoices = ["64-16-2", "64-16-3"]\n')
    status, _, err = cli("sweep", "run", "choices.toml", "--trials", "1", "--device", "cpu", "--out", "out")
    assert status == 1
    assert err.startswith("bitspike: net.notation '64-16-2' has 2 outputs, but own.npz has 3 classes")
    assert not (here / "out").exists()


def test_without_optuna(cli, here, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, _, err = cli("sweep", "run", "search.toml", "--trials", "1")
    assert status == 1
    assert err == "bitspike: a search needs Optuna, which is not installed; run: pip install 'bitspike[search]'\n"


def test_threads_and_devices(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(6)))
    assert [sweep_run._threads(workers) for workers in (1, 2, 4, 9)] == [None, 3, 1, 1]
    assert sweep_run._devices("auto", "cpu") == ["cpu"]
    assert sweep_run._devices("cuda:1", "cuda:1") == ["cuda:1"]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert sweep_run._devices("auto", "cuda:0") == ["cuda:0", "cuda:1"]


# ---- The display


def trial(number, value, state="COMPLETE", more=(), **result):
    ended = datetime(2026, 11, 18, 4, number, tzinfo=UTC)
    return SimpleNamespace(
        number=number,
        values=[value, *more],
        state=optuna.trial.TrialState[state],
        user_attrs={"result": {"ended": "epochs", **result}},
        datetime_complete=ended,
    )


def snapshot(trials, **more):
    workers = [
        LocalWorker(None, None, trials={3: "epoch 1/3, 50.00%"}),
        LocalWorker(None, None, doing="waits for the others' trials"),
    ]
    standing = Standing(complete=len(trials), pruned=1, diverged=1)
    given = {"trouble": "", "more_objectives": [], "complete_before": 0, "began": time.monotonic() - 10, **more}
    return Snapshot(standing=standing, target=9, trials=trials, workers=workers, **given)


def test_the_table():
    trials = [trial(0, 0.5), trial(1, 0.75), trial(2, 0.75)]
    assert best_of(trials).number == 1
    console = Console(width=120, record=True)
    console.print(_table(snapshot(trials, trouble="no server \x1b[31manswers")))
    text = console.export_text()
    assert "3/9 trials" in text
    assert "1 pruned  1 diverged  10 s so far" in text
    assert "18 trials/min" in text
    assert "20 s left" in text
    assert "best 75.00%, trial 1" in text
    assert r"waiting for the storage: no server \u001b[31manswers" in text
    assert "worker 1  trial 3" in text
    assert "worker 2  waits for the others' trials" in text


def test_the_best_of_two_objectives_is_beaten_by_none():
    trials = [trial(0, 0.75, more=[300.0]), trial(1, 0.75, more=[200.0]), trial(2, 0.75, more=[200.0]), trial(3, 0.5)]
    assert best_of(trials).number == 1


def test_lines_without_a_terminal():
    console = Console(width=100, record=True, force_terminal=False)
    display = SweepDisplay(console, None)
    trials = [trial(0, 0.5), trial(1, 0.25, ended="nan"), trial(2, 0.6, "PRUNED", ended="pruned", epochs=1)]
    display.show(snapshot(trials[:1]))
    display.show(snapshot(trials))
    display.show(snapshot(trials))
    assert [line.rstrip() for line in console.export_text().splitlines()] == [
        "trial   0  50.00%                      best 50.00% (trial 0)  1/9",
        "trial   1  diverged: chance accuracy   best 50.00% (trial 0)  3/9",
        "trial   2  pruned after epoch 1        best 50.00% (trial 0)  3/9",
    ]
