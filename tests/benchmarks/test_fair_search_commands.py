"""benchmarks/fair_search_commands.py: how commands end, by the clock, by signals and with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.sweeps import alive, wait_until

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def commands(script: Any) -> Any:
    return sys.modules["fair_search_commands"]


def test_the_output_goes_into_the_file(commands: Any, as_process: Any, tmp_path: Path) -> None:
    as_process("print(*sys.argv[1:]); print('warning', file=sys.stderr)")
    commands.Commands().run("sweep", "best", "x", out=tmp_path / "my.toml")
    assert (tmp_path / "my.toml").read_text() == "sweep best x\n"


def test_a_failure_of_a_captured_command_has_its_message(commands: Any, as_process: Any, tmp_path: Path) -> None:
    as_process("print('warning: first', 'bitspike: the study is gone', sep='\\n', file=sys.stderr); sys.exit(1)")
    line = "^`bitspike sweep best x` failed with status 1: bitspike: the study is gone$"
    with pytest.raises(commands.CommandError, match=line):
        commands.Commands().run("sweep", "best", "x", out=tmp_path / "my.toml")
    assert not list(tmp_path.iterdir())
    as_process("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(commands.CommandError, match=r"` was killed by signal 9$"):
        commands.Commands().run("train")


@pytest.mark.parametrize(
    ("names", "raised"),
    [
        (["TimeIsUp", "CommandError"], "CommandError"),
        (["TimeIsUp", "CommandError", "OSError"], "OSError"),
        (["TimeIsUp", "Interrupted"], "Interrupted"),
        (["TimeIsUp", "TimeIsUp"], "TimeIsUp"),
    ],
)
def test_the_worst_that_happened_is_raised(commands: Any, names: list[str], raised: str) -> None:
    kinds = {"OSError": OSError, **vars(commands)}

    def call(name: str) -> None:
        raise kinds[name](name)

    with pytest.raises(kinds[raised]):
        commands.Commands(processes=2).all([lambda name=name: call(name) for name in names])


def test_all_failures_are_named(commands: Any, as_process: Any) -> None:
    as_process("sys.exit(int(sys.argv[1]))")
    made = commands.Commands()
    with pytest.raises(commands.CommandError, match=r"status 4: .*\n.*status 5: "):
        made.all([lambda: made.run("4"), lambda: made.run("0"), lambda: made.run("5")])


def test_a_command_that_has_ended_all_the_same_is_done(commands: Any, as_process: Any, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    as_process(f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); open({str(ready)!r}, 'w'); time.sleep(60)")
    now = commands.time.monotonic()
    commands.Commands(ends=now + 1).run("train")
    assert ready.is_file()
    with pytest.raises(commands.TimeIsUp):
        commands.Commands(ends=now).run("train")


def test_an_error_while_it_stops_is_an_error(commands: Any, as_process: Any) -> None:
    as_process("signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)); time.sleep(60)")
    with pytest.raises(commands.CommandError, match="status 1"):
        commands.Commands(ends=commands.time.monotonic() + 1).run("train")


def test_a_command_that_does_not_stop_is_killed(
    commands: Any, as_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "GRACE", 0.1)
    as_process("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
    began = commands.time.monotonic()
    with pytest.raises(commands.TimeIsUp):
        commands.Commands(ends=began + 1).run("train")
    assert commands.time.monotonic() < began + 30


def test_a_second_signal_kills(commands: Any, as_process: Any) -> None:
    as_process(
        "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getppid(), signal.SIGTERM))\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "while True: time.sleep(0.1)"
    )
    made, began = commands.Commands(), commands.time.monotonic()
    with made.catching_signals(), pytest.raises(commands.Interrupted):
        made.run("train")
    assert commands.time.monotonic() < began + commands.GRACE / 2
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_command_ends_with_its_parent(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(f'{{os.getpid()}}.'); time.sleep(60)"
    code = f"import fair_search_commands as all; all.BITSPIKE = {child!r}; all.Commands().run('train')"
    paths = os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}) as parent:
        wait_until(lambda: pid.is_file() and pid.read_text().endswith("."))
        number = int(pid.read_text().rstrip("."))
        assert alive(number)
        parent.kill()
    wait_until(lambda: not alive(number), 10)
