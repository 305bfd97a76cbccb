"""The sets of benchmarks/judge_sets.py: made alike each time, with other subjects in the test, read as they say."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitspike import data

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
EVENTS = {  # classes, channels, time unit, seconds of the longest sample at least and at most
    "heart-6": (5, 6, "s", 2.5, 2.6),
    "gas-8": (6, 8, "s", 4.9, 5.0),
    "floor-24": (6, 24, "ms", 3.0, 3.2),
    "birds-40": (12, 40, "ms", 1.2, 2.5),
    "quakes-80": (16, 80, "ms", 0.5, 0.8),
    "sonar-160": (9, 160, "us", 0.25, 0.4),
    "street-40": (8, 40, "ms", 0.8, 0.9),
}


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.mark.parametrize("name", EVENTS)
def test_a_set_is_what_its_name_says_and_tests_other_subjects(scripts: Any, name: str) -> None:
    classes, channels, unit, shortest, longest = EVENTS[name]
    made = scripts("judge_sets").JUDGES[name](0)
    assert made.time_unit == unit
    assert not set(made.train["groups"]) & set(made.test["groups"])
    for part, fewest in ((made.train, 1200), (made.test, 300)):
        assert fewest <= len(part["labels"]) <= 3000
        assert set(part["labels"].tolist()) == set(range(classes))
        assert (part["x"].min(), part["x"].max()) == (0, channels - 1)
        assert part["offsets"][-1] == len(part["t"]) == len(part["x"])
        assert np.diff(part["offsets"]).min() > 0
        last = part["t"].max() / {"s": 1, "ms": 1e3, "us": 1e6}[unit]
        assert part["t"].min() >= 0
        assert shortest < last < longest
    assert ("y" in made.train) == ("p" in made.train) == (name == "street-40")


def test_a_seed_makes_the_same_set_each_time(scripts: Any) -> None:
    quakes = scripts("judge_touch_and_motion").quakes
    made, again, other = (quakes(seed) for seed in (0, 0, 1))
    for name, values in made.train.items():
        assert np.array_equal(values, again.train[name])
    assert len(made.train["t"]) != len(other.train["t"])


def test_the_recipes_were_not_chosen_on_these_sets(scripts: Any) -> None:
    judges = scripts("judge_sets").JUDGES
    assert list(judges) == [*EVENTS, "leaves-24"]
    assert not set(judges) & set(scripts("sensor_sets").SETS)


def test_the_command_writes_files_that_can_be_read(
    scripts: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judges = scripts("judge_sets")
    monkeypatch.setattr(sys, "argv", ["judge_sets.py", "--out", str(tmp_path), "--only", "gas-8", "--seed", "3"])
    scripts("sensor_sets").write_named_sets(judges.JUDGES, judges.__doc__)
    path = tmp_path / "gas-8.toml"
    assert str(path) in capsys.readouterr().out
    assert path.read_text() == '[data]\nfile = "gas-8-train.npz"\ntest_file = "gas-8-test.npz"\ntime_unit = "s"\n'
    read = data.load(path)
    assert (read.classes, read.shape) == (6, (8,))
    assert len(read.test) == 480


def test_leaves_are_images_of_eight_classes(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sight = scripts("judge_sound_and_sight")
    drawn, blank = sight._leaf, np.zeros((24, 24), np.uint8)
    monkeypatch.setattr(sight, "_leaf", lambda rng, shape: drawn(rng, shape) if rng.random() < 0.02 else blank)
    made = sight.leaves(0)
    assert made.train["images"].shape == (1840, 24, 24)
    assert made.test["images"].dtype == np.uint8
    assert made.test["images"].any()
    assert not set(made.train["groups"]) & set(made.test["groups"])
    assert set(made.test["labels"].tolist()) == set(range(8))
    assert made.time_unit is None
