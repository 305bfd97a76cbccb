"""Settings of the process that runs a command: how its threads wait, and what it does with freed memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

GLANCE = 0.1  # seconds over which the processors are watched


def tune_process() -> None:
    """Let waiting threads sleep if other programs use the processors, and keep freed memory; call before torch loads.

    OpenMP's threads spin while they wait for each other. That is fastest on an idle machine, but on a busy one the
    thread that they wait for may get no processor (benchmarks/cpu_waiting.py). No number depends on it. A user's
    OMP_WAIT_POLICY or GOMP_SPINCOUNT is not changed.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys() and shared():
        os.environ["OMP_WAIT_POLICY"] = "passive"
    from bitspike.ops.buffers import keep_freed_memory

    keep_freed_memory()


def shared(stat: Path = Path("/proc/stat")) -> bool:
    """Return True if other programs leave fewer processors idle than this process may use; False if not known."""
    try:
        before = _ticks(stat)
        time.sleep(GLANCE)
        after = _ticks(stat)
    except (OSError, ValueError):
        return False
    idle, every = (later - sooner for sooner, later in zip(before, after, strict=True))
    free = idle / max(every, 1) * (os.cpu_count() or 1)
    return free < len(os.sched_getaffinity(0)) - 0.5


def _ticks(stat: Path) -> tuple[int, int]:
    """Return the clock ticks of all processors so far: those that were idle, and all of them."""
    first = stat.read_text(encoding="ascii").partition("\n")[0].split()
    if first[:1] != ["cpu"] or len(first) < 6:
        raise ValueError(f"{stat}: must begin with the line of all processors, but begins with {first[:2]}")
    ticks = [int(number) for number in first[1:9]]  # from user to steal; guests are counted in user
    return ticks[3] + ticks[4], sum(ticks)
