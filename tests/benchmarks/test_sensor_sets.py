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


def test_faults_lose_events_and_belong_to_subjects(scripts: Any) -> None:
    parts, count = scripts("sensor_events"), 400
    plan = parts.Plan(np.zeros(count), np.arange(count) % 2, np.zeros(count, bool))
    sample, channel = (place.ravel() for place in np.mgrid[0:count, 0:50])
    events = {"sample": sample, "t": np.full(len(sample), 9.0), "x": channel}  # later than all noise
    durations = np.full(count, 2.0)

    def counts(noise: float, faults: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        made = parts.with_faults(rng, plan, events, durations, 50, noise=noise, hot=30, faults=faults)
        found = np.zeros((2, 2, 50))  # signal or noise, subject, channel
        np.add.at(found, ((made["t"] < 9).astype(int), plan.groups[made["sample"]], made["x"]), 1)
        return found[0] * 2 / count, found[1] * 2 / count  # a sample

    signal, noise = counts(1.5, (0, 0, 0.25))
    assert signal.mean() == pytest.approx(0.75, abs=0.02)
    assert noise.mean() == pytest.approx(3, abs=0.5)  # 1.5 a unit of time, for 2 units
    signal, noise = counts(0, (0.2, 0.1, 0))
    assert set(signal.ravel()) == {0, 1}  # a dead channel is dead in all samples of a subject
    assert signal.mean() == pytest.approx(0.8, abs=0.1)
    assert not noise[signal == 0].any()
    assert noise[noise > 0].mean() == pytest.approx(60, abs=2)
    assert (noise > 0).mean() == pytest.approx(0.1, abs=0.07)
    assert (signal[0] != signal[1]).any()


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
