"""Kills of workers and drivers at random moments: no trial is lost, none is done twice, all come to the same."""

import random
import statistics
import time

import pytest

from helpers import runs, sweeps

TRIALS, KILLS = 6, 10
OPTIONS = ("--sampler", "random", *runs.EVERY_ITERATION)
PAUSE = 0.02  # seconds in each of 24 iterations, so that kills hit them


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an experiment, and a study of it that nothing disturbed, in `whole`."""
    folder = tmp_path_factory.mktemp("sweeps")
    sweeps.write_search(folder)
    sweeps.sweep(folder, "whole", TRIALS, *OPTIONS)
    return folder


@pytest.fixture(scope="module")
def usual(home):
    """The seconds that a trial takes, so that slow machines are hit at the same places."""
    times = [trial.datetime_complete - trial.datetime_start for trial in sweeps.trials_of(home / "whole")]
    return statistics.median(time.total_seconds() for time in times) + 24 * PAUSE


def slowly():
    runs.slow_steps(PAUSE)
    sweeps.fork_workers()


def begin(home, name, storage):
    more = () if storage is None else ("--storage", storage, "--study", name)
    return sweeps.start(home, name, TRIALS, "--workers", "2", *OPTIONS, *more, prepare=slowly)


def require_whole(home, name, storage):
    """The study holds exactly the trials that were asked for, and each came to what it comes to undisturbed."""
    trials, undisturbed = sweeps.trials_of(home / name, storage), sweeps.trials_of(home / "whole")
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * TRIALS
    assert [trial.number for trial in trials] == list(range(TRIALS))
    assert [trial.values for trial in trials] == [trial.values for trial in undisturbed]
    assert [trial.params for trial in trials] == [trial.params for trial in undisturbed]
    sweeps.require_equal_trials(home / name, home / "whole", TRIALS)
    return sum(trial.user_attrs["claim"]["attempts"] - 1 for trial in trials)


@pytest.mark.parametrize("kind", ["journal", "postgresql"])
def test_ten_kills_lose_nothing(home, usual, kind, request):
    """Two workers; every fifth kill hits the driver, with which the workers end."""
    storage = request.getfixturevalue("server").address() if kind == "postgresql" else None
    moments, kills, study, again = random.Random(0), 0, 0, 0
    driver = begin(home, f"{kind}-{study}", storage)
    while kills < KILLS:
        time.sleep(moments.uniform(0.05, 0.6) * usual)
        name = f"{kind}-{study}"
        working = sweeps.working(sweeps.trials_of(home / name, storage))
        if not driver.running():  # it was faster; the next one starts anew
            assert driver.wait().code == 0, driver.wait().err
            again += require_whole(home, name, storage)
            study += 1
            driver = begin(home, f"{kind}-{study}", storage)
        elif working and kills % 5 == 4:
            driver.kill()
            driver.wait()
            sweeps.wait_until(lambda: not any(map(sweeps.alive, working)), 10)  # noqa: B023
            driver = begin(home, name, storage)
            kills += 1
        elif working:
            sweeps.kill(moments.choice(sorted(working)))
            kills += 1
    ended = driver.wait()
    assert ended.code == 0, ended.err
    again += require_whole(home, f"{kind}-{study}", storage)
    assert again >= KILLS // 2  # trials that were begun again: a kill may hit the moment after a result was told
