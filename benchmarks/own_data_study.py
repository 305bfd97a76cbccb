"""The base recipes on event sets that were made for this: binary and float32 weights, beside baselines, several seeds.

    python benchmarks/own_data_study.py [--trials 5] [--only NAMES] [--set key=value ...] [--json FILE] [--quick]

Every set is made from a seed, written to a file, and trained from an experiment file of three lines: nothing is tuned
to it. The sets differ in channels (6 to 128, and a camera of 32 x 32), length, number of events, balance, and in what
the class is: order, place, rhythm, direction, rate or coincidence. Samples are of persons, who differ in speed,
strength and place; the persons of the test are not in the training. `--built-in` adds nmnist-small, dvs-sign and shd.
`--quick` trains each set for one short epoch, to try the script on a CPU. Trials of a row are trained together, on a
GPU in less time. The table has means over the trials, in percent, with the sample standard deviation behind them; `gap`
is float32 less binary.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bitspike.experiments.assembly import RunOptions, pick_device
from bitspike.experiments.runs import train_trials
from bitspike.experiments.schema import Experiment, read_experiment

PERSONS = 12
Events = tuple[NDArray[np.float64], NDArray[np.int64]]  # times in units of the sample's length, and places


@dataclass(frozen=True, slots=True)
class Person:
    """The differences between persons: speed, strength, and how far places are moved (a share of all channels)."""

    speed: float
    strength: float
    place: float


@dataclass(frozen=True, slots=True)
class EventSet:
    """A made set: `draw(rng, label, person, channels)` gives one sample; `shares` are the classes' shares."""

    draw: Callable[[np.random.Generator, int, Person, int], Events]
    channels: int
    classes: int
    samples: int
    seconds: float
    shares: tuple[float, ...] | None = None
    camera: bool = False


def _noise(rng: np.random.Generator, channels: int, mean: float) -> Events:
    count = rng.poisson(mean)
    return rng.random(count), rng.integers(0, channels, count)


def _joined(*parts: Events) -> Events:
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def touch_order(rng: np.random.Generator, label: int, person: Person, channels: int) -> Events:
    """Three short touches in an order that is the class; counts of the whole sample say nothing."""
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    begin, parts = rng.uniform(0.02, 0.55), [_noise(rng, channels, 2.0 * channels)]
    for slot, group in enumerate(orders[label]):
        count = rng.poisson(14 * person.strength)
        t = begin + 0.11 * slot / person.speed + rng.gamma(2.0, 0.015, count)
        parts.append((t, (group * channels // 3 + rng.integers(0, max(channels // 3, 1), count)) % channels))
    return _joined(*parts)


def sweep_direction(rng: np.random.Generator, label: int, person: Person, channels: int) -> Events:
    """A sweep over the channels, up or down, slow or fast, once or twice (radar, chirps)."""
    up, fast, twice = label % 2, label // 2 % 2, label // 4
    lasts = (0.25 if fast else 0.5) / person.speed
    parts, begin = [_noise(rng, channels, 0.5 * channels)], rng.uniform(0, 0.3)
    for number in range(1 + twice):
        count = rng.poisson(1.5 * channels * person.strength / (1 + twice))
        along = rng.random(count)
        places = (along if up else 1 - along) * 0.8 + 0.1 + person.place + rng.normal(0, 0.03, count)
        parts.append((begin + (number + along) * lasts, np.clip(places * channels, 0, channels - 1).astype(np.int64)))
    return _joined(*parts)


def rhythm(rng: np.random.Generator, label: int, person: Person, channels: int) -> Events:
    """Bursts at one of five tempi, on all channels (vibration)."""
    bursts = (4, 6, 9, 13, 19)[label] * (1 + 0.3 * (person.speed - 1))
    beats = (np.arange(int(bursts) + 2) + rng.random()) / bursts
    t = np.repeat(beats, rng.poisson(1.2 * channels * person.strength, len(beats)) // 2)
    t = t + rng.normal(0, 0.008, len(t))
    return _joined((t, rng.integers(0, channels, len(t))), _noise(rng, channels, 4.0 * channels))


def two_formants(rng: np.random.Generator, label: int, person: Person, channels: int) -> Events:
    """Two bands of channels that move: ten words, spoken by persons of another pitch (audio)."""
    word = np.random.default_rng(1000 + label)
    begin, end = word.uniform(0.1, 0.9, (2, 2))
    begins = rng.uniform(0, 0.15)
    parts = [_noise(rng, channels, 1.0 * channels)]
    for low, high in zip(begin, end, strict=True):
        count = rng.poisson(2.5 * channels * person.strength)
        along = rng.random(count)
        places = low + (high - low) * along + person.place + rng.normal(0, 0.04, count)
        keep = (places >= 0) & (places < 1)
        parts.append(((begins + 0.7 * along / person.speed)[keep], (places[keep] * channels).astype(np.int64)))
    return _joined(*parts)


def rate_level(rng: np.random.Generator, label: int, person: Person, channels: int) -> Events:
    """The number of events is the class, and some channels fire more than others."""
    weights = np.random.default_rng(7).dirichlet(np.full(channels, 2.0))
    count = rng.poisson(6.0 * channels * 1.7**label * (1 + 0.2 * (person.strength - 1)))
    return rng.random(count), rng.choice(channels, count, p=weights)


def coincidence(rng: np.random.Generator, label: int, person: Person, channels: int) -> Events:
    """Pairs of channels fire together, or one a little after the other: which, is the class; rates are equal."""
    lag = (0.0, 0.03, 0.06, -0.03)[label]
    times = rng.uniform(0.05, 0.9, rng.poisson(10 * person.strength) + 3)
    half = channels // 2
    parts = [_noise(rng, channels, 0.5 * channels)]
    for side, moved in ((0, 0.0), (1, lag)):
        t = np.repeat(times + moved / person.speed, 2) + rng.normal(0, 0.003, 2 * len(times))
        parts.append((t, side * half + rng.integers(0, half, len(t))))
    return _joined(*parts)


def moving_bar(rng: np.random.Generator, label: int, person: Person, channels: int) -> Events:
    """A bar crosses a camera's picture in one of four directions, slow or fast; a place is y * side + x."""
    side = int(channels**0.5)
    direction, fast = label % 4, label // 4
    lasts = (0.4 if fast else 0.8) / person.speed
    count = rng.poisson(500 * person.strength)
    along, across = rng.random(count), rng.uniform(0.1, 0.9, count)
    front = along if direction % 2 else 1 - along
    x, y = (front, across) if direction < 2 else (across, front)
    places = (np.clip(y, 0, 0.999) * side).astype(np.int64) * side + (np.clip(x, 0, 0.999) * side).astype(np.int64)
    return _joined((rng.uniform(0, 0.15) + along * lasts, places), _noise(rng, channels, 60))


SETS = {
    "touch-6": EventSet(touch_order, 6, 6, 1800, 0.4),
    "touch-24-unbalanced": EventSet(touch_order, 24, 6, 1800, 4.0, shares=(0.4, 0.2, 0.15, 0.1, 0.1, 0.05)),
    "sweep-32": EventSet(sweep_direction, 32, 8, 2400, 0.05),
    "rhythm-12": EventSet(rhythm, 12, 5, 1500, 12.0),
    "words-128": EventSet(two_formants, 128, 10, 3000, 1.0),
    "rate-16": EventSet(rate_level, 16, 4, 1350, 2.0),
    "coincidence-64": EventSet(coincidence, 64, 4, 2000, 0.8),
    "bars-camera": EventSet(moving_bar, 32 * 32, 8, 1600, 0.5, camera=True),
}
BUILT_IN = ("nmnist-small", "dvs-sign", "shd")


def made_arrays(made: EventSet, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return the arrays of an event file: times in milliseconds, and a person for each sample."""
    rng = np.random.default_rng(seed)
    persons = [
        Person(float(rng.uniform(0.8, 1.25)), float(rng.uniform(0.6, 1.6)), float(rng.uniform(-0.08, 0.08)))
        for _ in range(PERSONS)
    ]
    shares = made.shares or (1 / made.classes,) * made.classes
    labels = rng.choice(made.classes, made.samples, p=shares)
    groups = rng.integers(0, PERSONS, made.samples)
    times, places = [], []
    for label, group in zip(labels.tolist(), groups.tolist(), strict=True):
        t, x = made.draw(rng, label, persons[group], made.channels)
        kept = (t >= 0) & (t < 1)
        order = np.argsort(t[kept], kind="stable")
        times.append(t[kept][order] * made.seconds * 1000)
        places.append(x[kept][order])
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in times])])
    t, x = np.concatenate(times), np.concatenate(places)
    where: dict[str, NDArray[Any]] = {"x": x}
    if made.camera:
        side = int(made.channels**0.5)
        where = {"x": x % side, "y": x // side}
    return {"t": t, **where, "offsets": offsets, "labels": labels, "groups": groups}


def write_files(folder: Path, name: str) -> Path:
    """Write the data and the experiment file of a set; return the latter's path."""
    path = folder / f"{name}.toml"
    if name in BUILT_IN:
        path.write_text(f'[data]\nname = "{name}"\n')
    else:
        arrays: Mapping[str, Any] = made_arrays(SETS[name])
        np.savez_compressed(folder / f"{name}.npz", **arrays)
        path.write_text(f'[data]\nfile = "{name}.npz"\ntime_unit = "ms"\n')
    return path


def baselines_of(spec: Experiment) -> dict[str, float]:
    """Return the accuracies of the most frequent class and of logistic regression on counts in ten time bins."""
    from bitspike.data.datasets import open_dataset

    try:
        from bitspike.analysis.baselines import baselines
    except ModuleNotFoundError:  # an earlier version
        return {"majority": float("nan"), "logistic": float("nan")}
    data = open_dataset(spec.data)
    found = baselines(data.train, data.test)
    return {"majority": 100 * found.majority, "logistic": 100 * found.logistic}


def study(name: str, path: Path, out: Path, trials: int, settings: list[str], device: torch.device) -> dict[str, Any]:
    """Train the trials of a set with binary and with float32 weights; return its row of the table."""
    binary = read_experiment(path, settings)
    row: dict[str, Any] = {
        "set": name, "notation": binary.net.notation, "bin_ms": binary.data.bin_ms, "steps": binary.data.steps,
        "batch": binary.train.batch, "passes": binary.train.epochs * binary.data.repeat, **baselines_of(binary),
    }  # fmt: skip
    for kind, more in (("binary", []), ("float32", ["net.binary=false"])):
        began = time.perf_counter()
        spec = read_experiment(path, [*settings, *more])
        summary = train_trials(spec, out / kind, trials, RunOptions(device=device), together=trials > 1)
        if summary is None:
            raise KeyboardInterrupt
        row[kind], row[f"{kind}_sigma"] = 100 * summary["mean"], 100 * (summary["sigma"] or 0.0)
        row[f"{kind}_seconds"] = round(time.perf_counter() - began, 1)
    return row


def line_of(row: Mapping[str, Any]) -> str:
    """Return a row of the table."""
    figures = [f"{row['majority']:5.1f}", f"{row['logistic']:5.1f}"]
    figures += [f"{row[kind]:5.1f} +- {row[f'{kind}_sigma']:3.1f}" for kind in ("float32", "binary")]
    gap, seconds = row["float32"] - row["binary"], row["binary_seconds"] + row["float32_seconds"]
    return f"{row['set']:<20} {row['notation']:<36} " + "  ".join(figures) + f"  {gap:5.1f}  {seconds:5.0f}"


def main() -> None:
    """Train every set, print a line for each, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*SETS, *BUILT_IN], default=None)
    parser.add_argument("--built-in", action="store_true")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    names = given.only or [*SETS, *(BUILT_IN if given.built_in else ())]
    settings = ["train.tensorboard=false", *given.settings]
    if given.quick:
        settings += ["train.epochs=1", "data.repeat=1", "data.train_limit=200"]
    device, trials = pick_device(given.device), 1 if given.quick else given.trials
    rows = []
    print(f"{'set':<20} {'network':<36} major  logis  float32       binary        gap  seconds")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = write_files(Path(folder), name)
            rows.append(study(name, path, Path(folder) / "runs" / name, trials, settings, device))
            print(line_of(rows[-1]), flush=True)
            if given.json:
                made_by = {
                    "command": shlex.join(sys.argv),
                    "torch": torch.__version__,
                    "python": platform.python_version(),
                }
                given.json.write_text(json.dumps({**made_by, "trials": trials, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
