"""A worker killed at a chosen moment of a trial's life: the next worker ends exactly the trials that were asked for."""

import multiprocessing
import os
from pathlib import Path

import optuna
import pytest

from bitspike.experiments.sweep import own_trials, training
from bitspike.experiments.sweep.worker import Work, work
from helpers import runs, sweeps

TRIALS = 2
OPTIONS = ("--sampler", "random", "--epochs", "1")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an experiment, and a study of it that nothing disturbed, in `whole`."""
    folder = tmp_path_factory.mktemp("moments")
    sweeps.write_search(folder)
    sweeps.sweep(folder, "whole", TRIALS, *OPTIONS)
    return folder


def after(holder, name, nth=1):
    """Die after the n-th call of a method."""
    method, calls = getattr(holder, name), []

    def dying(*args, **more):
        result = method(*args, **more)
        calls.append(None)
        if len(calls) == nth:
            runs.die()
        return result

    setattr(holder, name, dying)


def before(holder, name, which=lambda *args, **more: True):
    """Die instead of the first call of a method with such arguments."""
    method = getattr(holder, name)

    def dying(*args, **more):
        if which(*args, **more):
            runs.die()
        return method(*args, **more)

    setattr(holder, name, dying)


def half_a_line():
    """Die with half a line in the journal, while its lock is held."""
    backend = optuna.storages.journal.JournalFileBackend
    append, calls = backend.append_logs, []

    def half(self, logs):
        calls.append(None)
        if len(calls) < 9:
            return append(self, logs)
        self._lock.acquire()
        with Path(self._file_path).open("ab") as file:
            file.write(b'{"op_code":8,"worker_id":"1f"')
        return runs.die()

    backend.append_logs = half


def is_claim(trial, key, value):
    return key == "claim"


MOMENTS = {
    "a trial is created": lambda: after(optuna.Study, "ask"),
    "a parameter is drawn": lambda: after(optuna.Trial, "suggest_float", 2),
    "all are drawn, but it is nobody's": lambda: before(optuna.Trial, "set_user_attr", is_claim),
    "it is claimed": lambda: before(training.TrialTrainer, "train"),
    "its folder has a summary": lambda: before(own_trials.OwnTrials, "finish"),
    "its result is written, but not told": lambda: before(optuna.Study, "tell"),
    "it is told, but its lock is held": lambda: after(optuna.Study, "tell"),
    "half a line is in the journal": half_a_line,
}


def dying_worker(moment, folder, argv):
    """A driver whose worker is this process: it dies at the moment, as a worker does."""
    MOMENTS[moment]()
    run_worker(folder, argv)


def run_worker(folder, argv):
    """Do what a driver does, but work in this process."""
    import sys

    from bitspike.cli import main
    from bitspike.experiments.sweep import driver

    class HereAndNow(driver.Driver):
        def run(self):
            pipe = multiprocessing.Pipe(duplex=False)  # both ends stay open
            work(self._task, pipe[1])
            self._discard_checkpoints()
            return True

    driver.Driver = HereAndNow
    os.environ.update(runs.environment(folder))
    os.chdir(folder)
    sys.argv = ["bitspike", *argv]
    main()


def begin(home, name, storage, moment=None):
    more = () if storage is None else ("--storage", storage, "--study", name)
    argv = sweeps.arguments(home, name, TRIALS, *OPTIONS, *more)
    target, arguments = (run_worker, (home, argv)) if moment is None else (dying_worker, (moment, home, argv))
    process = runs._warm().Process(target=target, args=arguments)
    process.start()
    process.join(60)
    return process.exitcode


def require_checkpoints(out, storage):
    """A trial that was trained has its checkpoint for as long as its result is not told."""
    trained = [
        trial
        for trial in sweeps.trials_of(out, storage)
        if (out / "trials" / f"{trial.number:05d}" / "metrics.jsonl").is_file()
    ]
    not_told = {f"{trial.number:05d}" for trial in trained if not trial.state.is_finished()}
    assert not_told <= set(sweeps.checkpoints(out))


# On a server, kills that others are like.
LIKE = ("a parameter is drawn", "it is claimed", "its folder has a summary", "it is told, but its lock is held")


@pytest.mark.parametrize(
    ("moment", "kind"),
    [
        *((moment, "journal") for moment in MOMENTS),
        *(
            pytest.param(moment, "postgresql", marks=[pytest.mark.slow] if moment in LIKE else [])
            for moment in MOMENTS
            if "journal" not in moment
        ),
    ],
)
def test_a_kill_when(moment, kind, home, request):
    storage = request.getfixturevalue("server").address() if kind == "postgresql" else None
    name = f"moment-{kind}-{list(MOMENTS).index(moment)}"
    assert begin(home, name, storage, moment) == -9
    require_checkpoints(home / name, storage)
    assert begin(home, name, storage) == 0
    trials = sweeps.trials_of(home / name, storage)
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * TRIALS
    assert [trial.params for trial in trials] == [trial.params for trial in sweeps.trials_of(home / "whole")]
    sweeps.require_equal_trials(home / name, home / "whole", TRIALS)


def test_worker_needs_no_password_in_its_words():
    task = Work(Path("out"), "study", {}, 1, "postgresql://me:secret@host/db", 1, "cpu", 1, 1, None, (), "bitspike")
    assert "secret" not in repr(task)
