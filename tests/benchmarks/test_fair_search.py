"""benchmarks/fair_search.py: what it runs, in which order, and how it goes on; its commands are played, not run."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.fair_search import VARIANTS, Played
from helpers.files import fake_mnist

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fair_search.py"


def test_every_variant_is_searched_alike(played: Played) -> None:
    assert played.main("--stage", "search", "--trials", "9", "--epochs", "2") == 0
    assert [words[2] for words in played.commands] == [f"fashion/{name}" for name in (*VARIANTS[:3], "annealed")]
    for words in played.commands:
        assert words[words.index("--trials") + 1] == "9"
        assert "train.half_period=844" in words
    assert ["net.surrogate_center=current" in words for words in played.commands] == [False, False, False, True]


@pytest.mark.parametrize(("task", "layers"), [("fashion", 3), ("shd", 2)])
def test_the_control_has_a_threshold_for_each_layer_that_does_not_rise(played: Played, task: str, layers: int) -> None:
    assert played.main("--stage", "search", "--only", "layers", task=task) == 0
    (words,) = played.commands
    rates = [word for word in words if "rate=" in word]
    assert words[2] == f"{task}/annealed"
    assert rates == [f"net.theta.{layer}.rate=1" for layer in range(layers)]


def test_all_stages_the_best_settings_of_all_first(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--trials", "3", "--best", "2", "--seeds", "3", "--long", "9")
    assert played.main(*options) == 0
    assert played.trained() == order_of(played, 9)
    assert (played.out / "fair-search.png").is_file()
    assert "not finished" not in capsys.readouterr().out
    assert played.main(*options) == 0
    assert played.trained() == []  # all of it is there


def order_of(played: Played, epochs: int) -> list[str]:
    """The settings in the order of their training: the best of each variant, then the second ones."""
    trials = {variant: played.ranking(variant) for variant in VARIANTS}
    return [f"{variant}-trial{trials[variant][rank]}-{epochs}" for rank in range(2) for variant in VARIANTS]


def test_processes_run_at_once(played: Played) -> None:
    for variant in VARIANTS:
        played.search(variant)
    meeting = threading.Barrier(4, timeout=20)
    played.during = lambda setting: meeting.wait()
    assert played.main("--stage", "long", "--trials", "3", "--best", "1", "--processes", "4") == 0


def test_long_trainings_belong_to_a_trial_and_to_a_length(played: Played) -> None:
    few = ("--only", "fixed", "--best", "1", "--seeds", "1")
    played.main(*few, "--trials", "3")
    first = played.ranking("fixed")[0]
    assert played.trained() == [f"fixed-trial{first}-110"]
    played.main(*few, "--trials", "3", "--long", "50")
    assert played.trained() == [f"fixed-trial{first}-50"]

    (played.out / "fixed").rename(played.out / "before")
    played.search("fixed", 30)  # the same trials, and more of them
    second = played.ranking("fixed")[0]
    assert second != first
    assert played.main(*few, "--trials", "30", "--stage", "report") == 75
    assert [(each["trial"], each["seeds"]) for each in played.report()["fixed"]["settings"]] == [(second, [])]
    played.main(*few, "--trials", "30", "--stage", "long")
    assert played.trained() == [f"fixed-trial{second}-110"]


def test_a_variant_with_more_trials_has_no_advantage(played: Played) -> None:
    played.search("fixed", 30)
    assert played.ranking("fixed", trials=3)[0] < 3 <= played.ranking("fixed")[0]
    played.main("--stage", "report", "--trials", "3")
    assert played.report()["fixed"]["trials"] == 3


def test_long_trainings_wait_for_the_search(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    played.search("theta1", 2)
    played.search("fixed", 3)
    assert played.main("--stage", "long", "--trials", "3", "--only", "theta1", "fixed", "moving") == 1
    line = "the search is not finished: theta1 has 2 of 3 trials, moving has 0 of 3 trials; run --stage search first"
    assert line in capsys.readouterr().err
    assert played.commands == []
    assert played.main("--stage", "long", "--trials", "3", "--only", "fixed") == 0


def test_a_diverged_training_is_no_failure(script: Any, as_process: Any, tmp_path: Path) -> None:
    as_process("sys.exit(3 if sys.argv[1] == 'train' else 0)")
    given = script.parsed(["fashion", "--out", str(tmp_path)])
    script.train_setting(given, script.Setting("fixed", 0, 5, 0.8, 110, tmp_path))


def test_what_the_time_leaves_over_is_not_done(
    script: Any, as_process: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_process("time.sleep(60)")
    assert script.main(["fashion", "--out", str(tmp_path), "--minutes", "0.003"]) == 75
    said = capsys.readouterr()
    assert said.out.count("+ bitspike") == 1  # the other variants had no time at all, nor had long trainings
    assert said.err == "the 0.003 minutes are over; the same command goes on\n"
    assert "no study yet: theta1, fixed, annealed, moving\n" in said.out


def test_what_ended_as_the_time_did_is_done(played: Played) -> None:
    played.search("fixed")
    begun: list[str] = []

    def during(setting: str) -> None:
        begun.append(setting)
        played.train(played.out / "long" / setting, 1)
        raise played.script.TimeIsUp

    played.during = during
    options = ("--only", "fixed", "--trials", "3", "--best", "2", "--seeds", "1", "--processes", "1")
    assert played.main(*options) == 0
    assert len(begun) == 2
    assert played.main(*options, "--seeds", "2", "--stage", "long") == 75


def test_whole_settings_end_rather_than_many_begin(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    for variant in VARIANTS:
        played.search(variant)
    order = order_of(played, 110)
    begun: list[str] = []
    under_way: set[str] = set()
    most, clock = [], [0.0]

    def during(setting: str) -> None:
        begun.append(setting)
        under_way.add(setting)
        threading.Event().wait(0.02)  # others would begin now
        most.append(len(under_way))
        if len(begun) == 4:
            clock[0] = 1e9
            raise played.script.TimeIsUp
        under_way.discard(setting)

    played.during = during
    monkeypatch.setattr(sys.modules["fair_search_commands"], "time", SimpleNamespace(monotonic=lambda: clock[0]))
    options = ("--stage", "long", "--trials", "3", "--best", "2", "--processes", "2", "--minutes", "9")
    assert played.main(*options) == 75
    assert set(begun) <= set(order[:5])  # one may have begun beside the fourth
    assert max(most) <= 2


@pytest.mark.parametrize("failing", [0, 3])
def test_a_failure_counts_more_than_the_time(
    script: Any, as_process: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], failing: int
) -> None:
    as_process(f"sys.exit(7) if 'fashion-{VARIANTS[failing]}' in sys.argv else time.sleep(60)")
    options = ["--processes", "4", "--minutes", "0.05", "--trials", "9"]
    assert script.main(["fashion", "--out", str(tmp_path), *options]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"fair_search: `bitspike sweep run fashion/{('theta1', 0, 0, 'annealed')[failing]} ")
    assert line.endswith("` failed with status 7: its own message is above")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_is_passed_on(
    script: Any, as_process: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    saved = tmp_path / "saved"
    as_process(
        "assert os.getpgid(0) == os.getpid()  # else Ctrl-C would come twice\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(saved)!r}, 'w'), sys.exit(130)))\n"
        f"os.kill(os.getppid(), signal.{name}); time.sleep(60)"
    )
    assert script.main(["fashion", "--out", str(tmp_path / "out")]) == 130
    assert saved.is_file()
    assert capsys.readouterr().err == "interrupted; the same command goes on\n"


@pytest.mark.slow
def test_a_small_search_for_real_goes_on_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mnist(tmp_path / "root", train=60, test=20).rename(tmp_path / "root" / "fashion")
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "root"))
    tiny = ["--only", "fixed", "--trials", "2", "--epochs", "1", "--long", "2", "--seeds", "2", "--best", "1"]
    tiny += ["--workers", "1", "--together", "1", "--device", "cpu", "--set", "net.steps=2"]

    def call(machine: str, *more: str) -> Path:
        out = tmp_path / machine / "study"
        command = [sys.executable, str(SCRIPT), "fashion", "--out", str(out), *tiny, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out

    carried = [str(tmp_path / f"{number}.tar.xz") for number in range(2)]
    call("one", "--stage", "search", "--pack", carried[0])
    out = call("two", "--unpack", carried[0], "--pack", carried[1])
    again = call("three", "--unpack", carried[1], "--minutes", "0")  # nothing is left to train
    assert (again / "fair-search.png").is_file()
    assert list(out.glob("long/*/trial-*/last.ckpt"))
    assert not list(again.glob("long/*/trial-*/last.ckpt"))
