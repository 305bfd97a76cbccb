"""Drivers of one study: several at once, killed, interrupted, on two folders, and on a server that goes and comes."""

import json
import os
import signal
import time
from contextlib import suppress

import pytest

from helpers import runs, sweeps

SHORT = ("--sampler", "random", "--epochs", "1")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drivers")
    sweeps.write_search(folder)
    return folder


def slowly():
    runs.slow_steps(0.03)
    sweeps.fork_workers()


def die_with_a_summary():
    """Let the driver die, and with it its worker, when a trial has ended but is not told."""
    from bitspike.experiments.sweep.own_trials import OwnTrials

    driver = os.getpid()

    def dying(self, *args):
        os.kill(driver, signal.SIGKILL)
        time.sleep(60)

    OwnTrials.finish = dying
    sweeps.fork_workers()


def on(server, name):
    return "--storage", server.address(), "--study", name


@pytest.mark.parametrize("kind", ["journal", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_several_drivers_never_exceed_the_number(home, kind, request):
    more = on(request.getfixturevalue("server"), "several") if kind == "postgresql" else ()
    name = f"several-{kind}"
    drivers = [sweeps.start(home, name, 4, "--workers", str(n), *SHORT, *more) for n in (1, 2, 1)]
    ended = [driver.wait() for driver in drivers]
    assert [each.code for each in ended] == [0] * 3, [each.err for each in ended]
    assert sweeps.states(home / name, more[1] if more else None) == ["COMPLETE"] * 4


def test_workers_end_with_their_driver_and_a_new_one_goes_on(home):
    """Started as a user starts it: workers are forked off a server of their own."""
    driver = sweeps.start(home, "ended", 3, "--workers", "2", *runs.EVERY_ITERATION, prepare=None)
    working = sweeps.wait_until(
        lambda: len(found := sweeps.working(sweeps.trials_of(home / "ended"))) == 2 and found, 60
    )
    driver.kill()
    driver.wait()
    sweeps.wait_until(lambda: not any(map(sweeps.alive, working)), 5)
    sweeps.sweep(home, "ended", 3)
    assert sweeps.states(home / "ended") == ["COMPLETE"] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_driver_lets_its_trials_go(home, number):
    name = f"interrupted-{number.name}"
    driver = sweeps.start(home, name, 3, "--workers", "2", prepare=slowly)
    working = sweeps.wait_until(lambda: sweeps.working(sweeps.trials_of(home / name)))
    sweeps.wait_until(lambda: (home / name / "trials" / "00000" / "last.ckpt").is_file())
    driver.kill(number)
    ended = driver.wait()
    assert ended.code == 130
    assert ended.err.splitlines()[-1] == f"bitspike: interrupted; all is in {home / name}, the same command goes on"
    assert not any(map(sweeps.alive, working))
    left = [trial for trial in sweeps.trials_of(home / name) if trial.state.name == "RUNNING"]
    assert left
    assert all(trial.user_attrs["claim"]["owner"] is None for trial in left)
    assert "trial 0 had begun; it goes on from its last checkpoint" in sweeps.sweep(home, name, 3).err
    assert sweeps.states(home / name) == ["COMPLETE"] * 3


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("*", "trial 0 had begun; it starts anew, as this folder has no checkpoint of it"),
        ("summary.json", "trial 0 had begun; it goes on from its last checkpoint"),
        ("nothing", "trial 0 had begun; its training had ended, and its result is told now"),
    ],
)
def test_a_trial_that_is_taken_over_says_from_where(home, lost, said):
    """A study may be unpacked elsewhere without its trials' folders."""
    name = f"taken-over-{len(lost)}"
    driver = sweeps.start(home, name, 1, *SHORT, prepare=die_with_a_summary)
    sweeps.wait_until(lambda: (home / name / "trials" / "00000" / "summary.json").is_file())
    driver.wait()
    for path in (home / name / "trials" / "00000").glob(lost):
        path.unlink()
    ended = sweeps.sweep(home, name, 1, *SHORT)
    assert said in ended.err
    sweeps.sweep(home, "not-taken-over", 1, *SHORT)
    sweeps.require_equal_trials(home / name, home / "not-taken-over", 1)


@pytest.mark.parametrize("cold", [True, False])
def test_ctrl_c_while_workers_load_is_no_traceback(home, cold):
    """The system interrupts all processes of a terminal; workers take seconds to load their libraries.

    A driver that was started from nothing has no resource tracker of multiprocessing yet.
    """
    arguments = sweeps.arguments(home, f"early-{cold}", 2)
    driver = runs.start_cold(arguments, home) if cold else runs.start(arguments, home)
    loading = sweeps.wait_until(lambda: sweeps.children(driver.process.pid, "forkserver"))
    for pid in (*loading, driver.process.pid):
        os.kill(pid, signal.SIGINT)
    ended = driver.wait()
    assert ended.code == 130, ended.err
    said = f"bitspike: interrupted; all is in {home / f'early-{cold}'}, the same command goes on"
    assert ended.err.splitlines()[-1] == said
    assert "Traceback" not in ended.err


def test_the_forkserver_is_killed_while_trials_are_trained(home):
    """As for want of memory. Its workers live on, but nobody would see them end: they are replaced."""
    long = ("--sampler", "random", "--epochs", "40", *runs.EVERY_ITERATION)
    driver = sweeps.start(home, "orphans", 3, "--workers", "2", *long, prepare=None)
    working = sweeps.wait_until(
        lambda: len(found := sweeps.working(sweeps.trials_of(home / "orphans"))) == 2 and found, 60
    )
    (server,) = sweeps.children(driver.process.pid, "forkserver")
    sweeps.kill(server)
    sweeps.wait_until(lambda: not any(map(sweeps.alive, working)), 30)
    assert driver.running()
    ended = driver.wait()
    assert ended.code == 0, ended.err
    assert ended.err.count("a worker was killed (with the process that starts workers); another takes its place") == 2
    assert sweeps.states(home / "orphans") == ["COMPLETE"] * 3
    sweeps.sweep(home, "no-orphans", 3, "--workers", "2", *long)
    sweeps.require_equal_trials(home / "orphans", home / "no-orphans", 3)


def test_the_forkserver_is_killed_while_it_loads(home):
    driver = sweeps.start(home, "loading", 1, *SHORT, prepare=None)
    for _ in range(2):
        (server,) = sweeps.wait_until(lambda: sweeps.children(driver.process.pid, "forkserver"))
        sweeps.kill(server)
        sweeps.wait_until(lambda: server not in sweeps.children(driver.process.pid, "forkserver"))  # noqa: B023
    ended = driver.wait()
    assert ended.code == 0, ended.err
    assert sweeps.states(home / "loading") == ["COMPLETE"]


def have_no_forkserver():
    from multiprocessing import forkserver

    def gone(fds):
        raise ConnectionRefusedError

    forkserver.connect_to_new_process = gone


def test_a_forkserver_that_is_always_killed_ends_the_sweep_in_one_line(home):
    ended = sweeps.start(home, "memory", 1, *SHORT, prepare=have_no_forkserver).wait()
    assert ended.code == 1
    assert ended.err.splitlines()[1:] == [
        "bitspike: the process that starts workers was killed 5 times; is there enough memory? The same command goes on"
    ]


def search_and_start_another(home, argv):
    """Do what a notebook may do: search, then start a process of its own, which must take Ctrl-C; exit with 0 then."""
    import multiprocessing
    import sys

    from bitspike.cli import main

    os.chdir(home)
    os.environ.update(runs.environment(home))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background ignore it
    sys.argv = ["bitspike", *argv]
    with suppress(SystemExit):
        main()
    other = multiprocessing.get_context("forkserver").Process(target=be_interrupted)
    other.start()
    other.join()
    sys.exit(0 if other.exitcode == 3 else 1)


def be_interrupted():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    except KeyboardInterrupt:
        os._exit(3)


def test_a_search_leaves_no_process_that_ctrl_c_does_not_reach(home):
    process = runs._warm().Process(
        target=search_and_start_another, args=(home, sweeps.arguments(home, "left", 1, *SHORT))
    )
    process.start()
    process.join(150)
    assert process.exitcode == 0


def test_a_worker_that_is_asked_to_end_is_replaced(home):
    driver = sweeps.start(home, "asked", 3, prepare=slowly)
    working = sweeps.wait_until(lambda: sweeps.working(sweeps.trials_of(home / "asked")))
    os.kill(next(iter(working)), signal.SIGTERM)
    ended = driver.wait()
    assert ended.code == 0, ended.err
    assert "a worker was killed (signal 15); another takes its place" in ended.err
    assert sweeps.states(home / "asked") == ["COMPLETE"] * 3


def test_more_trials_go_on_where_fewer_ended(home):
    sweeps.sweep(home, "more", 2, *SHORT)
    before = (home / "more" / "trials" / "00001" / "best.safetensors").stat().st_mtime_ns
    ended = sweeps.sweep(home, "more", 3, *SHORT, "--json")
    found = json.loads(ended.out)
    assert (found["complete"], found["running"], found["failed"]) == (3, 0, 0)
    assert [trial["number"] for trial in found["trials"]] == [0, 1, 2]
    assert (home / "more" / "trials" / "00001" / "best.safetensors").stat().st_mtime_ns == before
    again = sweeps.sweep(home, "more", 3, *SHORT, "--json")
    assert json.loads(again.out) == found
    assert json.loads(sweeps.sweep(home, "more", 1, *SHORT, "--json").out)["complete"] == 3
    summary = json.loads((home / "more" / "trials" / "00000" / "summary.json").read_text())
    assert summary["accuracy"] is None
    assert summary["valid_accuracy"] == found["trials"][0]["values"][0]


def test_trials_at_once_are_trials_alone(home):
    sweeps.sweep(home, "alone", 4, "--sampler", "random")
    sweeps.sweep(home, "together", 4, "--sampler", "random", "--together", "3")
    for number in range(4):
        one, two = (home / name / "trials" / f"{number:05d}" for name in ("alone", "together"))
        assert runs.rows(one) == runs.rows(two)
        assert (one / "best.safetensors").read_bytes() == (two / "best.safetensors").read_bytes()
    summary = json.loads((home / "together" / "trials" / "00000" / "summary.json").read_text())
    assert summary["together"] == 3


def test_a_server_that_stops_and_starts_again(home, server):
    driver = sweeps.start(home, "outage", 4, "--workers", "2", *on(server, "outage"), prepare=slowly)
    sweeps.wait_until(lambda: "COMPLETE" in sweeps.states(home / "outage", server.address()))
    server.stop()
    time.sleep(2.5)
    assert driver.running()
    server.start()
    ended = driver.wait()
    assert ended.code == 0, ended.err
    assert "waiting for the storage: --storage postgresql://sweeper:***@127.0.0.1" in ended.err
    assert sweeps.states(home / "outage", server.address()) == ["COMPLETE"] * 4


def test_an_interrupt_does_not_wait_for_the_server(home, server):
    driver = sweeps.start(home, "no-answer", 4, *on(server, "no-answer"), prepare=slowly)
    sweeps.wait_until(lambda: sweeps.working(sweeps.trials_of(home / "no-answer", server.address())))
    server.stop()
    try:
        time.sleep(0.5)
        driver.kill(signal.SIGINT)
        began = time.monotonic()
        assert driver.wait().code == 130
        assert time.monotonic() - began < 20
    finally:
        server.start()


def never_join():
    from bitspike.experiments.sweep import worker

    worker.join_study = lambda *arguments: time.sleep(300)
    sweeps.fork_workers()


def test_an_interrupt_does_not_wait_for_a_worker_that_joins(home):
    """It holds nothing yet, so that it ends at once, whatever its storage does."""
    driver = sweeps.start(home, "joining", 1, *SHORT, prepare=never_join)
    sweeps.wait_until(lambda: sweeps.children(driver.process.pid, ""))
    time.sleep(0.5)
    driver.kill(signal.SIGINT)
    began = time.monotonic()
    assert driver.wait().code == 130
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_interrupt_does_not_wait_for_a_server_that_hangs(home, server, interrupts):
    """A server that is frozen takes questions and never answers: no connection breaks."""
    name = f"frozen-{interrupts}"
    driver = sweeps.start(home, name, 4, "--workers", "2", *on(server, name), prepare=slowly)
    working = sweeps.wait_until(lambda: sweeps.working(sweeps.trials_of(home / name, server.address())))
    with server.frozen():
        time.sleep(1.5)  # the driver looks once a second
        for _ in range(interrupts):
            driver.kill(signal.SIGINT)
            began = time.monotonic()
            time.sleep(0.5)
        ended = driver.wait()
        assert time.monotonic() - began < 20
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert not any(map(sweeps.alive, working))
    if interrupts == 1:
        line = f"bitspike: interrupted; all is in {home / name}, the same command goes on"
        assert ended.err.splitlines()[-1] == line
        assert ended.err.count("waiting for the storage: --storage postgresql://sweeper:***@127.0.0.1") <= 1


def test_a_trial_of_another_machine_is_taken_over_when_its_heart_stops(home, server):
    """Two folders that share nothing but the server: what was begun in one is begun again in the other."""
    more = (*on(server, "machines"), "--heartbeat", "1")
    first = sweeps.start(home, "machine-1", 2, *more, prepare=slowly)
    sweeps.wait_until(lambda: sweeps.working(sweeps.trials_of(home / "machine-1", server.address())))
    first.kill()
    first.wait()
    second = sweeps.start(home, "machine-2", 2, *more)
    time.sleep(1)
    ended = second.wait()
    assert ended.code == 0, ended.err
    trials = sweeps.trials_of(home / "machine-2", server.address())
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 2
    assert trials[0].user_attrs["claim"]["attempts"] == 2
    sweeps.sweep(home, "undisturbed", 2)
    sweeps.require_equal_trials(home / "machine-2", home / "undisturbed", 2)


def test_a_living_trial_of_another_machine_is_left_alone(home, server):
    more = (*on(server, "living"), "--heartbeat", "1")
    drivers = [sweeps.start(home, f"living-{n}", 2, *more, prepare=slowly) for n in (1, 2)]
    assert [driver.wait().code for driver in drivers] == [0, 0]
    trials = sweeps.trials_of(home / "living-1", server.address())
    assert [trial.user_attrs["claim"]["attempts"] for trial in trials] == [1, 1]
    folders = [sorted(each.name for each in (home / f"living-{n}" / "trials").glob("0*")) for n in (1, 2)]
    assert sorted(folders[0] + folders[1]) == ["00000", "00001"]
