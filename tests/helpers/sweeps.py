"""Small sweeps as real processes: an experiment with a search space, drivers, workers, kills, and what is left."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

from bitspike.experiments.sweep.studies import open_study
from helpers import runs

_TOML = """
[data]
file = "own.npz"
[net]
notation = "64-16-3"
beta = 0.9
slope = 5.0
theta = 0.5
dropout = 0.2
steps = 5
[train]
epochs = 4
batch = 8
lr = 0.01
half_period = 50
[search."train.lr"]
low = 0.001
high = 0.1
log = true
[search."net.beta"]
low = 0.5
high = 0.99
[search."net.theta"]
low = 0.2
high = 2.0
"""


def write_search(folder: Path, samples: int = 60) -> Path:
    """Write random 8x8 images of three classes, and a small experiment with a table [search]."""
    runs.write_experiment(folder, samples)
    (folder / "search.toml").write_text(_TOML)
    return folder / "search.toml"


def arguments(home: Path, name: str, trials: int, *more: str) -> list[str]:
    """Return the arguments of `bitspike sweep run` on the CPU."""
    return ["sweep", "run", str(home / "search.toml"), *("--trials", str(trials), "--out", str(home / name)),
            *("--device", "cpu"), *map(str, more)]  # fmt: skip


def fork_workers() -> None:
    """Let the driver of this process fork its workers: they have all libraries at once, as those of a real one later.

    Call it in a process that was forked itself, and has no threads.
    """
    import multiprocessing

    from bitspike.experiments.sweep import driver

    driver.multiprocessing = SimpleNamespace(get_context=lambda kind: multiprocessing.get_context("fork"))


def start(home: Path, name: str, trials: int, *more: str, prepare=fork_workers) -> runs.Child:
    """Start a driver."""
    return runs.start(arguments(home, name, trials, *more), home, prepare)


def sweep(home: Path, name: str, trials: int, *more: str, prepare=fork_workers) -> runs.Ended:
    """Run a driver to its end."""
    ended = start(home, name, trials, *more, prepare=prepare).wait()
    assert ended.code == 0, ended.err
    return ended


def trials_of(out: Path, storage: str | None = None) -> list:
    """Return the trials of a study; an empty list as long as there is none."""
    if not (out / "study.json").is_file():
        return []
    return open_study(out, storage).study.get_trials(deepcopy=False)


def states(out: Path, storage: str | None = None) -> list[str]:
    return [trial.state.name for trial in trials_of(out, storage)]


def working(trials: list) -> dict[int, int]:
    """Return the processes that train a trial now, and the trial of each."""
    running = [t for t in trials if t.state.name == "RUNNING" and t.user_attrs.get("claim", {}).get("owner")]
    return {t.user_attrs["claim"]["pid"]: t.number for t in running if alive(t.user_attrs["claim"]["pid"])}


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int, word: str) -> list[int]:
    """Return the child processes of a process that have this word in their command line."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found if word in Path(f"/proc/{each}/cmdline").read_text()]


def wait_until(seen, seconds: float = 60, every: float = 0.02):
    """Return what `seen()` returns as soon as that is true."""
    end = time.monotonic() + seconds
    while not (found := seen()):
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(every)
    return found


def kill(pid: int) -> None:
    os.kill(pid, 9)


def require_equal_trials(out: Path, other: Path, trials: int) -> None:
    """Assert that all trials of two studies came to the same, byte for byte, and that no checkpoint is left."""
    for number in range(trials):
        runs.require_equal_results(out / "trials" / f"{number:05d}", other / "trials" / f"{number:05d}")
    assert checkpoints(out) == checkpoints(other) == []


def checkpoints(out: Path) -> list[str]:
    """Return the trials of a study that have a checkpoint, or a part of one."""
    return sorted(path.parent.name for path in (out / "trials").glob("*/*last*"))
