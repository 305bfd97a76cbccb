"""Tiny runs as real processes: an experiment on own data, `bitspike train` on it, and what must be equal afterwards."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import torch

# A checkpoint after every iteration, however fast the machine is.
EVERY_ITERATION = ("--set", "train.checkpoint_minutes=1e-9")

_TOML = """
[data]
file = "own.npz"
[net]
notation = "3Conv3-3Conv3-AP2-12Dense6-6Dense3"
beta = 0.9
slope = 5.0
theta = [{start = 0.4, stop = 1.5, rate = 0.02}, 0.5, {start = 0.3, stop = 1.0, steps = 40}, 0.4]
dropout = 0.2
norm = "step"
steps = 5
[train]
epochs = 5
batch = 8
lr = 0.01
half_period = 50
grad_clip = 1.0
"""


def write_experiment(folder: Path, samples: int = 60) -> Path:
    """Write random 8x8 images of three classes, and a network with all that a resumed run could get wrong."""
    import numpy as np

    drawn = np.random.default_rng(0)
    images = drawn.integers(0, 256, (samples, 8, 8)).astype(np.uint8)
    np.savez(folder / "own.npz", images=images, labels=np.arange(samples) % 3)
    (folder / "tiny.toml").write_text(_TOML)
    return folder / "tiny.toml"


_EVENTS_TOML = """
[data]
file = "events.npz"
kind = "events"
time_unit = "us"
sensor = [12]
steps = 10
bin_ms = 10
[net]
notation = "12Dense8-8Dense6-6Dense3"
beta = [{low = 0.6, high = 0.95}, 0.8, 0.9]
slope = 2.0
theta = [{start = 0.5, stop = 1.0, rate = 0.02}, 0.8, 1.0]
delays = 4
dense_norm = true
readout = "membrane"
spike_dropout = 0.2
surrogate = "arctan"
learn_beta = false
[train]
epochs = 3
batch = 8
lr = 0.01
schedule = "decay"
warmup = 0.1
loss = "cross_entropy"
label_smoothing = 0.1
latent_clip = 0.1
shift = 2
stretch = 0.2
time_shift = 1
mix = 0.4
recalibrate = 20
[train.rates]
norms = 0.002
delays = 0.5
"""


def write_event_experiment(folder: Path, samples: int = 60) -> Path:
    """Write random events of three classes, and a recipe with delays and all that changes training samples."""
    import numpy as np

    drawn = np.random.default_rng(0)
    labels = np.arange(samples) % 3
    counts = drawn.integers(20, 60, samples)
    t = np.concatenate([np.sort(drawn.integers(0, 100_000, n)) for n in counts])
    x = np.concatenate([(drawn.integers(0, 6, n) + 3 * k) % 12 for k, n in zip(labels, counts, strict=True)])
    np.savez(folder / "events.npz", t=t, x=x, offsets=np.concatenate(([0], counts.cumsum())), labels=labels)
    (folder / "events.toml").write_text(_EVENTS_TOML)
    return folder / "events.toml"


def arguments(experiment: Path, out: Path, *more: str) -> list[str]:
    """Return the arguments of `bitspike train` on the CPU."""
    return ["train", str(experiment), "--out", str(out), "--device", "cpu", *more]


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with one thread, no data but the test's, nothing left over from whoever runs the tests."""
    left_out = ("BITSPIKE_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {"OMP_NUM_THREADS": "1", "BITSPIKE_DATA": str(folder)}


@dataclass(frozen=True)
class Ended:
    """A process that ended: its exit status (minus the signal that ended it) and what it wrote."""

    code: int | None
    out: str
    err: str


@dataclass
class Child:
    """A process of `bitspike ...`, writing into files."""

    process: Any
    log: Path
    leads: bool = False  # other processes, which it must end itself
    began: float = field(default_factory=time.monotonic)

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.process.pid, number)

    def running(self) -> bool:
        return self._code() is None

    def wait(self, seconds: float = 120) -> Ended:
        """Wait until it ends; one that does not is killed, and fails the test."""
        end = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > end:
                self._give_up()
                raise TimeoutError(f"still running after {seconds} s: {self._read('err')}")
            time.sleep(0.002)
        return Ended(self._code(), self._read("out"), self._read("err"))

    def _give_up(self) -> None:
        """Send SIGTERM first: torchrun then ends its processes, which would outlive it; it takes 30 s at most."""
        self.kill(signal.SIGTERM)
        end = time.monotonic() + (40 if self.leads else 0.2)
        while self.running() and time.monotonic() < end:
            time.sleep(0.05)
        if self.running():
            self.kill()
        while self.running():
            time.sleep(0.01)

    def wait_for(self, seen: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until `seen()`, which must come before the process ends."""
        end = time.monotonic() + seconds
        while not seen():
            if self.running() and time.monotonic() > end:
                self._give_up()
            if not self.running():
                raise TimeoutError(f"ended with {self._code()} before: {self._read('err')}")
            time.sleep(0.002)

    def _code(self) -> int | None:
        poll = getattr(self.process, "poll", None)
        code: int | None = poll() if poll is not None else self.process.exitcode
        return code

    def _read(self, stream: str) -> str:
        return self.log.with_suffix(f".{stream}").read_text(errors="replace")


def start_cold(argv: list[str], folder: Path, *launcher: str) -> Child:
    """Start `python -m bitspike ...`, or a launcher before `-m bitspike`, from nothing: imports and all."""
    log = _new_log(folder)
    with log.with_suffix(".out").open("w") as out, log.with_suffix(".err").open("w") as err:
        process = subprocess.Popen(
            [sys.executable, *launcher, "-m", "bitspike", *argv],
            stdout=out,
            stderr=err,
            env=environment(folder),
            cwd=folder,
        )
    return Child(process, log, leads=bool(launcher))


def start(argv: list[str], folder: Path, prepare: Callable[[], object] | None = None) -> Child:
    """Start `bitspike ...` in a process forked off one that has done the imports, which take seconds.

    `prepare` is called in it first: a module's function, or a partial of one.
    """
    log = _new_log(folder)
    process = _warm().Process(target=_command, args=(argv, folder, log, prepare))
    process.start()
    return Child(process, log)


@cache
def _warm() -> Any:
    os.environ["OMP_NUM_THREADS"] = "1"  # is read when torch is imported
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "bitspike.cli",
            "bitspike.experiments.runs",
            "bitspike.experiments.sweep.worker",
            "bitspike.experiments.sweep.driver",
            "bitspike.experiments.sweep.overview",
            "sqlalchemy.dialects.postgresql",
            "psycopg",
            "alembic.command",
            "optuna.storages._rdb.models",
            "bitspike.data.event_files",
            "bitspike.data.frame_cache",
            "safetensors.torch",
            "tomli_w",
            "torch._inductor.config",
            "torch._dynamo",
            "torch.utils.tensorboard",
            "matplotlib.backends.backend_agg",
        ]
    )
    return context


def _command(argv: list[str], folder: Path, log: Path, prepare: Callable[[], object] | None) -> None:
    for number, stream in ((1, "out"), (2, "err")):
        file = os.open(log.with_suffix(f".{stream}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    os.environ.update(environment(folder))
    os.chdir(folder)
    sys.argv = ["bitspike", *argv]
    if prepare is not None:
        prepare()
    from bitspike.cli import main

    main()


def _new_log(folder: Path) -> Path:
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    log = logs / str(len(list(logs.iterdir())))
    for stream in ("out", "err"):
        log.with_suffix(f".{stream}").touch()
    return log


# Runs within the test's process


def interrupting(after: int) -> Any:
    """Return a listener that interrupts a run from the iteration after so many on."""
    from bitspike.train.loop import Listener

    asked: list[None] = []
    return Listener(interrupted=lambda: asked.append(None) or len(asked) > after)  # type: ignore[func-returns-value]


def training_samples(run: Path) -> Any:
    """Return the samples that a run was trained with."""
    from bitspike.data.datasets import open_dataset
    from bitspike.experiments.held_out import splits
    from bitspike.experiments.schema import read_experiment

    spec = read_experiment(run / "experiment.toml")
    return splits(spec, open_dataset(spec.data, root=None, seed=spec.seed))["train"]


# What is left of a run


def rows(out: Path) -> list[dict[str, Any]]:
    """Return the rows of metrics.jsonl without their times."""
    read = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "timing"} for row in read]


def checkpoint(out: Path) -> dict[str, Any]:
    return torch.load(out / "last.ckpt", weights_only=True)


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return nested tables and lists as one table, by path."""
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {path: leaf for key, inner in items for path, leaf in flat(inner, f"{name}/{key}").items()}
    return {name: value}


def without_times(out: Path) -> dict[str, Any]:
    """Return all of last.ckpt but clocks: weights, moments, sums, thresholds, rows."""
    found = flat(checkpoint(out))
    return {path: leaf for path, leaf in found.items() if "/timing/" not in path and path != "/progress/seconds"}


def require_equal(out: Path, other: Path) -> None:
    """Assert that two runs came to the same, bit for bit."""
    require_equal_results(out, other)
    one, two = without_times(out), without_times(other)
    assert one.keys() == two.keys()
    for path, leaf in one.items():
        same = torch.equal(leaf, two[path]) if isinstance(leaf, torch.Tensor) else leaf == two[path]
        assert same, f"{path} is {leaf}, but {two[path]} in the other run"


def require_equal_results(out: Path, other: Path) -> None:
    """Assert that two runs came to the same, bit for bit, as far as it shows without last.ckpt."""
    assert rows(out) == rows(other)
    assert (out / "best.safetensors").read_bytes() == (other / "best.safetensors").read_bytes()
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (out, other)]
    changing = ("command", "seconds", "test_seconds", "peak_memory_mb")
    assert [{key: value for key, value in summary.items() if key not in changing} for summary in summaries[:1]] == [
        {key: value for key, value in summary.items() if key not in changing} for summary in summaries[1:]
    ]


# What may go wrong in a process, to be called in it


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_move(name: str, nth: int, when: Literal["half", "before", "after"]) -> None:
    """Send SIGKILL where the n-th file is moved to `name`: with half of it written, before the move, or after."""
    moved = Path.replace
    calls = []

    def replace(self: Path, target: Path) -> Path:
        calls.extend([name] * (Path(target).name == name))
        due = Path(target).name == name and len(calls) == nth
        if due and when == "half":
            os.truncate(self, self.stat().st_size // 2)
        if due and when != "after":
            die()
        result = moved(self, target)
        if due:
            die()
        return result

    Path.replace = replace  # type: ignore[method-assign, assignment]


def die_in_metrics(nth: int) -> None:
    """Send SIGKILL when half of the n-th line is in metrics.jsonl."""
    from bitspike.train.run_folder import RunFolder

    add = RunFolder.add_metrics
    calls = []

    def half(self: RunFolder, row: dict[str, Any]) -> None:
        calls.append(None)
        if len(calls) < nth:
            add(self, row)
            return
        with self.metrics.open("a") as file:
            file.write(json.dumps(row)[:40])
        die()

    RunFolder.add_metrics = half  # type: ignore[method-assign]


def slow_steps(seconds: float) -> None:
    """Slow iterations down, so that a signal can hit them."""
    from bitspike.train.loop import Trainer

    step = Trainer.step

    def slow(self: Trainer, batch: torch.Tensor) -> Any:
        time.sleep(seconds)
        return step(self, batch)

    Trainer.step = slow  # type: ignore[method-assign]


def small_files(most: int) -> None:
    """Let no file grow beyond `most` bytes: that is what a full disk is to the process."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def full_disk(call: str, nth: int) -> None:
    """Raise ENOSPC at the n-th os.fsync, os.replace, ... of the process."""
    from importlib import import_module

    module, _, function = call.rpartition(".")
    holder = import_module(module)
    real = getattr(holder, function)
    calls = []

    def full(*args: Any, **more: Any) -> Any:
        calls.append(None)
        if len(calls) >= nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **more)

    setattr(holder, function, full)


def full_board(nth: int) -> None:
    """Raise ENOSPC at the n-th time that TensorBoard's events are written out."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    flush = RecordWriter.flush
    calls = []

    def full(self: Any) -> None:
        calls.append(None)
        if len(calls) >= nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(self)

    RecordWriter.flush = full


# Several processes


def join(rank: int, size: int, port: int, prepare: Callable[[], object] | None = None) -> None:
    """Make this process one of `size`, as torchrun does."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    if prepare is not None:
        prepare()


def start_ranks(
    size: int, argv: list[str] | list[list[str]], folder: Path, prepare: Callable[[], object] | None = None
) -> list[Child]:
    """Start the command in `size` processes that work as one; `argv` may be one for each."""
    port = free_port()
    each = [argv] * size if isinstance(argv[0], str) else argv
    return [start(each[rank], folder, partial(join, rank, size, port, prepare)) for rank in range(size)]


def wait_all(children: list[Child], seconds: float = 60) -> list[Ended]:
    """Wait until all have ended; where one hangs, kill all."""
    try:
        return [child.wait(seconds) for child in children]
    finally:
        for child in children:
            if child.running():
                child.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def dump_ranks(folder: Path) -> None:
    """Let each process write what it holds after training."""
    from bitspike.train.loop import Trainer

    run = Trainer.run

    def dumping(self: Trainer) -> str:
        ending = run(self)
        held = {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "theta": self.thetas(),
            "rows": [{key: value for key, value in row.items() if key != "timing"} for row in self.progress.rows],
            "best": [self.progress.best_epoch, self.progress.best_accuracy, self.progress.best_loss],
        }
        torch.save(held, folder / f"rank-{self.world.rank}.pt")
        return ending

    Trainer.run = dumping  # type: ignore[method-assign, assignment]


def write_nothing_unless_first() -> None:
    """Keep all processes but the first from writing a byte to any file."""
    if os.environ["RANK"] != "0":
        small_files(0)
