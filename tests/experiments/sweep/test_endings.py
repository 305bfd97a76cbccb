"""How trials end: diverged, pruned, failed; and what a study makes of it."""

import json

import pytest

from helpers import runs, sweeps


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endings")
    sweeps.write_search(folder)
    return folder


def written(home, name, *replaced):
    """Write the experiment with other lines, under another name; return its path."""
    text = (home / "search.toml").read_text()
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    (home / f"{name}.toml").write_text(text)
    return home / f"{name}.toml"


def run(home, name, trials, *more, file=None, prepare=sweeps.fork_workers):
    argv = sweeps.arguments(home, name, trials, "--json", *more)
    argv[2] = str(file or home / "search.toml")
    return runs.start(argv, home, prepare).wait()


def meet_nan():
    """Let the second trial of the process meet a NaN in its first iteration, the third one in its second epoch."""
    import torch

    from bitspike.train.loop import Trainer

    made, init, step = [], Trainer.__init__, Trainer.step

    def numbered(self, *args, **more):
        init(self, *args, **more)
        self.made = len(made)
        made.append(None)

    def bad(self, *args):
        if (self.made, self.progress.step) in ((1, 0), (2, 8)):
            with torch.no_grad():
                next(self.net.parameters()).fill_(float("nan"))
        return step(self, *args)

    Trainer.__init__, Trainer.step = numbered, bad
    sweeps.fork_workers()


def test_a_diverged_trial_is_complete_at_chance(home):
    ended = run(home, "diverged", 4, "--second", "spikes", prepare=meet_nan)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["complete"], found["diverged"], found["failed"]) == (4, 2, 0)
    results = [trial["result"] for trial in found["trials"]]
    assert [result["diverged"] for result in results] == [False, True, True, False]
    assert [found["trials"][n]["values"] for n in (1, 2)] == [[1 / 3, 5 * 19.0]] * 2  # all neurons at all steps
    assert found["trials"][0]["values"][1] < 5 * 19
    assert "diverged: chance accuracy" in ended.err


@pytest.mark.parametrize("pruner", [pytest.param("median", marks=pytest.mark.slow), "hyperband"])
def test_pruned_trials_count(home, pruner):
    ended = run(home, pruner, 9, "--pruner", pruner, "--sampler", "random")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["complete"] == 9
    pruned = [trial for trial in found["trials"] if trial["state"] == "pruned"]
    assert len(pruned) == found["pruned"] > 0
    for trial in pruned:
        assert trial["result"]["ended"] == "pruned"
        assert trial["result"]["epochs"] < 4
        assert len(runs.rows(home / pruner / trial["folder"])) == trial["result"]["epochs"]
    assert "pruned after epoch" in ended.err


def die_when_pruned():
    from bitspike.experiments.sweep.own_trials import OwnTrials

    noted = OwnTrials.note_pruned

    def dying(self, claim, result):
        noted(self, claim, result)
        if claim.attempts == 1:
            runs.die()

    OwnTrials.note_pruned = dying
    sweeps.fork_workers()


def test_a_trial_killed_when_it_was_pruned_is_not_trained_on(home):
    ended = run(home, "pruned-dead", 9, "--pruner", "hyperband", "--sampler", "random", prepare=die_when_pruned)
    assert ended.code == 0, ended.err
    undisturbed = run(home, "hyperband", 9, "--pruner", "hyperband", "--sampler", "random")
    killed, whole = json.loads(ended.out), json.loads(undisturbed.out)
    assert "a worker was killed (signal 9); another takes its place" in ended.err
    assert killed["pruned"] > 0
    assert [t["values"] for t in killed["trials"]] == [t["values"] for t in whole["trials"]]


def find_nothing_before():
    """Let the trials themselves find what does not fit the data."""
    from bitspike.experiments.sweep import data_fit

    data_fit.require_fit = lambda *arguments: None
    sweeps.fork_workers()


def test_a_trial_that_cannot_be_trained_is_replaced_and_the_same_twice_ends_the_sweep(home):
    choices = '[search."net.notation"]\nchoices = ["64-16-3", "64-16-2"]\n'
    file = written(home, "choices", ('[search."net.theta"]', choices + '[search."net.theta"]'))
    more = ("--sampler", "random", "--epochs", "1")
    ended = run(home, "choices", 8, *more, file=file, prepare=find_nothing_before)
    assert ended.code == 1
    line = ended.err.splitlines()[-1]
    assert line.startswith("bitspike: two trials failed in the same way, such as trial ")
    assert "net.notation '64-16-2' has 2 outputs, but" in line
    states = sweeps.states(home / "choices")
    assert states.count("FAIL") == 2
    assert "RUNNING" not in states
    assert "failed, another takes its place" in ended.err
    shown = sweeps.trials_of(home / "choices")
    assert all("has 2 outputs" in trial.user_attrs["error"] for trial in shown if trial.state.name == "FAIL")


def die_in_training():
    from bitspike.train.loop import Trainer

    Trainer.step = lambda self, *args: runs.die()
    sweeps.fork_workers()


def test_a_trial_that_kills_its_workers_fails(home):
    """A network that does not fit into memory would be begun for ever."""
    ended = run(home, "killer", 3, "--epochs", "1", prepare=die_in_training)
    assert ended.code == 1
    line = ended.err.splitlines()[-1]
    assert "its worker died 10 times in a row before it came any further; is there enough memory?" in line
    assert sweeps.states(home / "killer") == ["FAIL", "FAIL"]


def lose_the_file():
    """Delete the samples once the study is made."""
    from pathlib import Path

    from bitspike.experiments.sweep.driver import Driver

    run = Driver.run

    def without(self):
        Path("gone.npz").unlink()
        return run(self)

    Driver.run = without
    sweeps.fork_workers()


def test_a_file_that_is_lost_ends_the_sweep_in_one_line(home):
    (home / "gone.npz").write_bytes((home / "own.npz").read_bytes())
    file = written(home, "missing", ('file = "own.npz"', 'file = "gone.npz"\nkind = "images"'))
    ended = run(home, "missing", 2, file=file, prepare=lose_the_file)
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("bitspike: ")
    assert "gone.npz" in ended.err
