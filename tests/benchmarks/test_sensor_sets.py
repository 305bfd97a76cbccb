"""The sets of benchmarks/sensor_sets.py: made alike each time, with other subjects in the test, as they say."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_a_set_is_made_alike_each_time_and_tests_other_subjects(scripts: Any) -> None:
    vibration = scripts("sensors_in_room").vibration
    made, again, other = vibration(0), vibration(0), vibration(1)
    for part in ("train", "test"):
        arrays = getattr(made, part)
        for name, values in arrays.items():
            assert np.array_equal(values, getattr(again, part)[name])
        assert set(arrays["labels"].tolist()) == set(range(5))
        assert arrays["x"].max() == 31
        assert len(arrays["offsets"]) == len(arrays["labels"]) + 1
        assert arrays["offsets"][-1] == len(arrays["t"])
    assert not set(made.train["groups"]) & set(made.test["groups"])
    assert len(made.train["labels"]) + len(made.test["labels"]) == 1600
    assert len(made.train["t"]) != len(other.train["t"])


def test_letters_are_images_of_ten_classes(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    images = scripts("image_sets")
    drawn = images._letter
    monkeypatch.setattr(images, "_letter", lambda rng, label: drawn(rng, label) if rng.random() < 0.02 else _blank())
    made = images.letters(0)
    assert made.train["images"].shape == (1500, 16, 16)
    assert made.test["images"].dtype == np.uint8
    assert made.test["images"].any()
    assert set(made.test["labels"].tolist()) == set(range(10))
    assert made.time_unit is None


def _blank() -> np.ndarray:
    return np.zeros((16, 16), np.uint8)


def test_delta_modulation_counts_thresholds(scripts: Any) -> None:
    signal = np.array([[[0.0, 1.0, 1.4, 0.0, 9.0]]])
    up, down = scripts("sensor_events").delta_modulated(signal, 0.5, 2)
    assert up.tolist() == [[[0, 2, 0, 0, 2]]]
    assert down.tolist() == [[[0, 0, 0, 2, 0]]]  # the level was 1.0, and falls to 0
    up, down = scripts("sensor_events").delta_modulated(np.array([[[0.0, 1.0, 0.2, 0.8]]]), 0.5, 3, up_only=True)
    assert up.tolist() == [[[0, 2, 0, 1]]]  # from 0.2, which the level followed
    assert not down.any()


def test_smoothing_keeps_the_variance_of_white_noise(scripts: Any) -> None:
    noise = np.random.default_rng(0).standard_normal((20, 2000))
    smooth = scripts("sensor_events").smooth(noise, 5)
    assert smooth.std() == pytest.approx(1, abs=0.05)
    assert np.abs(np.diff(smooth)).mean() < 0.3 * np.abs(np.diff(noise)).mean()


def test_events_are_sorted_and_divided_by_subject(scripts: Any) -> None:
    parts = scripts("sensor_events")
    plan = parts.Plan(np.array([0, 1, 1]), np.array([7, 8, 7]), np.array([False, True, False]))
    events = {"sample": np.array([2, 1, 0, 2]), "t": np.array([0.3, 0.2, 0.1, 0.25]), "x": np.array([0, 1, 2, 3])}
    made = parts.two_files(plan, events, "ms", 1000)
    assert made.train["t"].tolist() == [100, 250, 300]
    assert made.train["x"].tolist() == [2, 3, 0]
    assert made.train["offsets"].tolist() == [0, 1, 3]
    assert made.train["groups"].tolist() == [7, 7]
    assert made.test["t"].tolist() == [200]
    assert made.test["labels"].tolist() == [1]


def test_repeated_channels_have_the_same_times(scripts: Any) -> None:
    arrays = {"t": np.array([1, 2]), "x": np.array([0, 3], np.int16), "offsets": np.array([0, 1, 2])}
    result = scripts("sensor_sets").repeated(arrays, 4, 2)
    assert result["t"].tolist() == [1, 1, 2, 2]
    assert result["x"].tolist() == [0, 4, 3, 7]
    assert result["offsets"].tolist() == [0, 2, 4]


def test_an_experiment_file_names_both_files(scripts: Any, tmp_path: Path) -> None:
    path = scripts("sensor_sets").write_files(tmp_path, "vibration-32", copies=2)
    name = "vibration-32-x2"
    assert path.read_text() == f'[data]\nfile = "{name}-train.npz"\ntest_file = "{name}-test.npz"\ntime_unit = "ms"\n'
    with np.load(tmp_path / f"{name}-test.npz") as held:
        assert held["x"].max() == 63
