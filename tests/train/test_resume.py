"""A run killed at any moment and resumed comes to what one never killed comes to, bit for bit."""

import json
import os
import pickle
import random
import signal
import time
from functools import partial

import pytest
import torch

from helpers import runs
from helpers.runs import EVERY_ITERATION, arguments, require_equal, start, start_cold

KILLS = 20
PATIENT = ("--epochs", "30", "--set", "train.patience=2")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an experiment, and a run of it that nothing disturbed, in `whole`."""
    folder = tmp_path_factory.mktemp("runs")
    runs.write_experiment(folder)
    assert train(folder, "whole").code == 0
    return folder


def launch(home, name, *more, prepare=None):
    return start(arguments(home / "tiny.toml", home / name, *more), home, prepare)


def train(home, name, *more, prepare=None):
    return launch(home, name, *more, prepare=prepare).wait()


def resume(home, name, *more):
    ended = train(home, name, "--resume", *more)
    assert ended.code == 0, ended.err
    return ended


def leftovers(out):
    return sorted(path.name for path in out.iterdir() if path.name.startswith(".") and path.name != ".lock")


def place(out):
    """Epochs done and iterations of the next, where last.ckpt stands."""
    progress = runs.checkpoint(out)["progress"]
    return progress["epoch"], progress["iteration"]


def only_line(ended):
    """What the person sees of a refusal."""
    assert ended.code == 1
    assert ended.err.count("\n") == 1, ended.err
    assert ended.err.startswith("bitspike: ")
    return ended.err


# ---- SIGKILL at random moments


def killed_at(begin, delay):
    """Whether SIGKILL after `delay` seconds hit the process that `begin` starts; else it was done."""
    child = begin()
    while child.running() and time.monotonic() - child.began < delay:
        time.sleep(0.002)
    if child.running():
        child.kill()
    ended = child.wait()
    assert ended.code in (0, -signal.SIGKILL), ended.err
    return ended.code != 0


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_nothing(home):
    moments = random.Random(0)
    began = time.monotonic()
    assert train(home, "timed", *EVERY_ITERATION).code == 0
    whole = time.monotonic() - began  # so that slow machines are hit at the same places
    kills, run, within = 0, 0, 0
    while kills < KILLS:
        out = home / f"killed-{run}"
        begin = partial(launch, home, out.name, "--resume", *EVERY_ITERATION)
        kills += killed_at(begin, moments.uniform(0.05, 0.7) * whole)
        within += (out / "last.ckpt").is_file() and place(out)[1] > 0
        if (out / "summary.json").is_file():  # it was faster; the next one starts anew
            require_equal(out, home / "whole")
            run += 1
    out = home / f"killed-{run}"
    resume(home, out.name)
    require_equal(out, home / "whole")
    assert kills == KILLS
    assert within >= 3  # of them found the run in the middle of an epoch


@pytest.mark.slow
def test_kills_of_a_process_that_starts_from_nothing(home):
    """`python -m bitspike`: once among its imports, once as soon as there is a checkpoint."""
    argv = arguments(home / "tiny.toml", home / "cold", "--resume", *EVERY_ITERATION)
    assert killed_at(partial(start_cold, argv, home), 0.5)
    assert not (home / "cold").exists()
    child = start_cold(argv, home)
    child.wait_for((home / "cold" / "last.ckpt").is_file)
    child.kill()
    assert child.wait().code == -signal.SIGKILL
    assert start_cold(argv, home).wait().code == 0
    require_equal(home / "cold", home / "whole")


# ---- SIGKILL at chosen moments of a write

MOMENTS = {
    "after the experiment": partial(runs.die_at_move, "experiment.toml", 1, "after"),
    "before the first metrics": partial(runs.die_at_move, "metrics.jsonl", 1, "before"),
    "before the first checkpoint": partial(runs.die_at_move, "last.ckpt", 1, "before"),
    "half a checkpoint": partial(runs.die_at_move, "last.ckpt", 10, "half"),
    "before the checkpoint's move": partial(runs.die_at_move, "last.ckpt", 10, "before"),
    "after the checkpoint's move": partial(runs.die_at_move, "last.ckpt", 10, "after"),
    "half of the best": partial(runs.die_at_move, "best.safetensors", 2, "half"),
    "between best and metrics": partial(runs.die_at_move, "best.safetensors", 2, "after"),
    "half a line of metrics": partial(runs.die_in_metrics, 3),
    "before the summary": partial(runs.die_at_move, "summary.json", 1, "before"),
}


# Kills that another moment is like, but for the file or the side of the move.
LIKE = (
    "after the experiment",
    "before the first metrics",
    "before the first checkpoint",
    "before the checkpoint's move",
    "half of the best",
    "before the summary",
)


@pytest.mark.parametrize(
    "moment", [pytest.param(moment, marks=pytest.mark.slow) if moment in LIKE else moment for moment in MOMENTS]
)
def test_a_kill_during_a_write(home, moment):
    name = moment.replace(" ", "-").replace("'", "")
    assert train(home, name, *EVERY_ITERATION, prepare=MOMENTS[moment]).code == -signal.SIGKILL
    if moment == "after the checkpoint's move":
        assert place(home / name)[1] > 0
    if moment == "half a line of metrics":
        assert not (home / name / "metrics.jsonl").read_text().endswith("\n")
    resume(home, name)
    require_equal(home / name, home / "whole")


def test_a_kill_before_experiment_toml_is_there(home):
    moment = partial(runs.die_at_move, "experiment.toml", 1, "before")
    assert train(home, "unborn", prepare=moment).code == -signal.SIGKILL
    resume(home, "unborn")
    require_equal(home / "unborn", home / "whole")


def test_a_resumed_run_clears_away_what_a_killed_write_left(home):
    train(home, "clutter", prepare=partial(runs.die_at_move, "last.ckpt", 2, "before"))
    assert leftovers(home / "clutter")
    resume(home, "clutter")
    assert not leftovers(home / "clutter")


def test_a_run_that_had_ended_by_patience_does_not_go_on(home):
    assert train(home, "patient", *PATIENT).code == 0
    moment = partial(runs.die_at_move, "summary.json", 1, "before")
    assert train(home, "impatient", *PATIENT, prepare=moment).code == -signal.SIGKILL
    resume(home, "impatient", *PATIENT)
    require_equal(home / "impatient", home / "patient")


def test_a_kill_in_the_second_of_three_trials(home):
    more = ("--trials", "3", "--epochs", "2")
    assert train(home, "trials", *more).code == 0
    # two epochs a trial and no checkpoint in between: the third is the second trial's first
    moment = partial(runs.die_at_move, "last.ckpt", 3, "after")
    assert train(home, "killed-trials", *more, prepare=moment).code == -signal.SIGKILL
    assert not (home / "killed-trials" / "trial-1" / "summary.json").exists()
    assert not (home / "killed-trials" / "trial-2").exists()
    resume(home, "killed-trials", *more)
    for trial in range(3):
        require_equal(home / "killed-trials" / f"trial-{trial}", home / "trials" / f"trial-{trial}")
    one, other = (json.loads((home / name / "summary.json").read_text()) for name in ("trials", "killed-trials"))
    assert one["accuracies"] == other["accuracies"]
    assert one["seeds"] == other["seeds"] == [0, 1, 2]


# ---- SIGINT, SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_and_says_how_to_go_on(home, number):
    name = f"interrupted-{number.name}"
    child = launch(home, name, prepare=partial(runs.slow_steps, 0.05))
    child.wait_for((home / name / "last.ckpt").is_file)
    time.sleep(0.12)  # into the second epoch
    child.kill(number)
    ended = child.wait()
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert ended.err.splitlines()[-1] == f"bitspike: interrupted; saved in {home / name}, add --resume to go on"
    assert place(home / name)[1] > 0  # not a step was lost
    assert not leftovers(home / name)
    resume(home, name)
    require_equal(home / name, home / "whole")


def test_a_second_interrupt_ends_the_run_at_once(home):
    child = launch(home, "twice", prepare=partial(runs.slow_steps, 20))
    child.wait_for((home / "twice" / "metrics.jsonl").is_file)
    time.sleep(0.2)
    for _ in range(2):
        child.kill(signal.SIGINT)
        time.sleep(0.2)
    ended = child.wait(10)
    assert ended.code == 130
    assert "Traceback" not in ended.err
    resume(home, "twice")
    require_equal(home / "twice", home / "whole")


# ---- A full disk


def small_files_after(epochs, most):
    """The limit comes when there are checkpoints already."""
    from bitspike.train.loop import Trainer

    save = Trainer.save

    def limited(self):
        if self.progress.epoch > epochs:
            runs.small_files(most)
        save(self)

    Trainer.save = limited


FULL = {
    "a file that may not grow": partial(small_files_after, 2, 8000),
    "a file that may hardly begin": partial(small_files_after, 2, 2000),
    "ENOSPC in the move": partial(runs.full_disk, "os.replace", 6),
    "ENOSPC in fsync": partial(runs.full_disk, "os.fsync", 7),
}


@pytest.mark.parametrize(
    "way",
    [
        "a file that may not grow",
        "ENOSPC in the move",
        pytest.param("a file that may hardly begin", marks=pytest.mark.slow),
        pytest.param("ENOSPC in fsync", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_is_one_line_and_the_last_checkpoint_is_intact(home, way):
    name = way.replace(" ", "-")
    ended = train(home, name, prepare=FULL[way])
    assert ended.code == 1
    assert "Traceback" not in ended.err
    lines = [line for line in ended.err.splitlines() if line.startswith("bitspike: ")]
    assert len(lines) == 1
    assert str(home / name) in lines[0]
    assert any(cause in lines[0] for cause in ("full", "no space left", "file too large"))
    epoch, iteration = place(home / name)
    assert epoch >= 1
    assert iteration == 0
    assert not leftovers(home / name)
    resume(home, name)
    require_equal(home / name, home / "whole")


def test_a_full_disk_under_tensorboard_says_where(home):
    ended = train(home, "board", prepare=partial(runs.full_board, 4))
    assert ended.code == 1
    assert place(home / "board")[0] >= 1
    assert f"{home / 'board'}" in ended.err.splitlines()[-1]


def test_a_disk_full_from_the_start_leaves_nothing(home):
    ended = train(home, "full", prepare=partial(runs.full_disk, "os.fsync", 1))
    assert "no space left" in only_line(ended)
    assert [path.name for path in (home / "full").iterdir()] == [".lock"]
    assert train(home, "full").code == 0  # without --resume: there is nothing to go on with
    require_equal(home / "full", home / "whole")


# ---- What --resume accepts


def test_more_epochs_than_before_are_those_of_one_run(home):
    assert train(home, "eight", "--epochs", "8").code == 0
    assert train(home, "five", "--epochs", "5").code == 0
    resume(home, "five", "--epochs", "8")
    require_equal(home / "five", home / "eight")


def test_a_complete_run_is_left_alone(home):
    files = {path: path.read_bytes() for path in (home / "whole").iterdir()}
    resume(home, "whole")
    resume(home, "whole", "--epochs", "3")
    assert {path: path.read_bytes() for path in (home / "whole").iterdir()} == files


def test_settings_that_decide_no_numbers_may_change(home):
    moment = partial(runs.die_at_move, "last.ckpt", 2, "after")
    assert train(home, "seen", prepare=moment).code == -signal.SIGKILL
    resume(home, "seen", "--set", "train.tensorboard=false", "--set", "train.watch_every=1", *EVERY_ITERATION)
    require_equal(home / "seen", home / "whole")


def test_other_settings_are_refused_by_name(home):
    line = only_line(train(home, "whole", "--resume", "--seed", "3", "--set", "train.lr=0.02"))
    assert "seed was 0, is 3" in line
    assert "train.lr was 0.01, is 0.02" in line
    assert "choose another --out" in line


def test_other_data_under_the_same_name_are_refused(tmp_path):
    runs.write_experiment(tmp_path)
    assert train(tmp_path, "run", "--epochs", "1").code == 0
    runs.write_experiment(tmp_path, samples=63)
    assert "belongs to another experiment" in only_line(train(tmp_path, "run", "--epochs", "2", "--resume"))


def test_a_run_is_not_overwritten(home):
    assert "add --resume" in only_line(train(home, "whole"))


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_a_folder_with_other_files_is_refused(home, more):
    (home / "papers").mkdir(exist_ok=True)
    (home / "papers" / "notes.txt").write_text("mine")
    assert "is not empty and holds no run" in only_line(train(home, "papers", *more))
    assert [path.name for path in (home / "papers").iterdir()] == ["notes.txt"]


def test_an_experiment_that_cannot_be_built_leaves_no_run_behind(home):
    assert "Dense" in only_line(train(home, "typo", "--set", "net.notation=3Conv3-5Dense3"))
    assert train(home, "typo").code == 0  # no --resume, no other --out
    require_equal(home / "typo", home / "whole")


def test_metrics_after_the_checkpoint_and_half_a_line_are_written_anew(home):
    assert train(home, "torn", "--epochs", "3").code == 0
    metrics = home / "torn" / "metrics.jsonl"
    line = metrics.read_text().splitlines()[-1]
    metrics.write_text(metrics.read_text() + line + "\n" + line[:30])
    resume(home, "torn", "--epochs", "5")
    require_equal(home / "torn", home / "whole")


# ---- A damaged last.ckpt


class Code:
    """A pickle that makes a folder when it is read."""

    def __init__(self, made):
        self.made = made

    def __reduce__(self):
        return os.mkdir, (str(self.made),)


def damaged(kind, out):
    last = out / "last.ckpt"
    whole, state = last.read_bytes(), runs.checkpoint(out)
    if kind == "truncated":
        last.write_bytes(whole[: len(whole) // 2])
    elif kind == "garbage":
        last.write_bytes(random.Random(0).randbytes(5000))
    elif kind == "flipped":
        weights = state["net"]["layers.0.synapse.weight"].numpy().tobytes()
        assert whole.count(weights) == 1
        last.write_bytes(whole.replace(weights, bytes(byte ^ 1 for byte in weights)))
    elif kind == "empty":
        last.write_bytes(b"")
    elif kind == "pickle":
        last.write_bytes(pickle.dumps(Code(out.parent / "ran"), protocol=2))
    elif kind == "new pickle":
        last.write_bytes(pickle.dumps(Code(out.parent / "ran")))
    elif kind == "code":
        torch.save(state | {"progress": Code(out.parent / "ran")}, last)
    elif kind == "other":
        torch.save([1, 2], last)
    else:
        torch.save(state | {kind: None}, last)


@pytest.mark.parametrize(
    "kind",
    [
        "truncated",
        "garbage",
        "empty",
        "pickle",
        "code",
        "other",
        "flipped",
        "net",
        "progress",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("new pickle", "annealing", "optimizer", "sums", "first_bad", "silent", "identity")
        ),
    ],
)
def test_a_damaged_checkpoint_is_one_line_and_runs_no_code(home, kind):
    name = f"damaged-{kind}".replace(" ", "-")
    out = home / name
    out.mkdir()
    for file in ("experiment.toml", "last.ckpt", "metrics.jsonl", "best.safetensors"):
        (out / file).write_bytes((home / "whole" / file).read_bytes())
    damaged(kind, out)
    line = only_line(train(home, name, "--resume", "--epochs", "6"))
    assert "last.ckpt" in line
    assert not (home / "ran").exists()
    assert (out / "metrics.jsonl").read_bytes() == (home / "whole" / "metrics.jsonl").read_bytes()


def test_nobody_is_told_to_run_the_code_in_a_checkpoint(home):
    out = home / "advice"
    out.mkdir()
    for file in ("experiment.toml", "last.ckpt"):
        (out / file).write_bytes((home / "whole" / file).read_bytes())
    damaged("code", out)
    assert "weights_only" not in only_line(train(home, "advice", "--resume", "--epochs", "6"))
