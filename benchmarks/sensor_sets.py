"""Nine sets of events as sensors give them, and five of images: each is a function of a seed.

    python benchmarks/sensor_sets.py --out DIR [--only NAMES] [--seed N]

Each set becomes a training file, a test file and an experiment file of a few lines. Subjects (persons, speakers,
patients, machines) differ from each other, and those of the test are not in the training. Channels can be dead or hot,
and a few events are lost. `digits-npz` and `clothes-npz` are parts of MNIST and FashionMNIST, which must be on the
machine (`bitspike data fetch`); all others are made here. `benchmarks/recipe_study.py` trains on them: they chose
numbers of the base recipes (docs/reports/own-data.md), so they do not judge them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from image_sets import clothes, digits, letters
from picture_sets import balls, shapes, textures
from sensor_events import Array, TwoFiles
from sensors_in_room import camera, radar, vibration
from sensors_of_speech import keywords
from sensors_on_body import braille, ecg, emg, imu

Sets = Mapping[str, Callable[[int], TwoFiles]]  # functions of a seed, by the names of their sets
SENSORS: dict[str, Callable[[int], TwoFiles]] = {
    "braille-12": braille,
    "emg-8": emg,
    "imu-6": imu,
    "radar-64": radar,
    "keywords-128": keywords,
    "ecg-4": ecg,
    "cam-64": camera,
    "vibration-32": vibration,
}
IMAGES: dict[str, Callable[[int], TwoFiles]] = {"digits-npz": digits, "clothes-npz": clothes, "letters-16": letters}
PICTURES: dict[str, Callable[[int], TwoFiles]] = {"shapes-20": shapes, "textures-28": textures, "balls-28": balls}
SETS = SENSORS | IMAGES | PICTURES


def repeated(arrays: Mapping[str, Array], channels: int, copies: int) -> dict[str, Array]:
    """Return the events with every channel repeated: its copies come `channels` further on, at the same times."""
    result = dict(arrays)
    for name in {"t", "y", "p"} & result.keys():
        result[name] = np.repeat(result[name], copies)
    result["x"] = (result["x"].astype(np.int64)[:, None] + channels * np.arange(copies)).ravel()
    result["offsets"] = result["offsets"] * copies
    return result


def write_files(folder: Path, name: str, seed: int = 0, copies: int = 1, sets: Sets = SETS) -> Path:
    """Write both files of a set and its experiment file; return the latter's path."""
    made = sets[name](seed)
    parts: dict[str, Mapping[str, Any]] = {"train": made.train, "test": made.test}
    if copies > 1:
        if made.time_unit is None:
            raise ValueError(f"{name} has images, which have no channels to repeat; give the name without -x{copies}")
        channels = 1 + max(int(arrays["x"].max()) for arrays in parts.values())
        parts = {part: repeated(arrays, channels, copies) for part, arrays in parts.items()}
        name = f"{name}-x{copies}"
    for part, arrays in parts.items():
        np.savez_compressed(folder / f"{name}-{part}.npz", **arrays)
    unit = f'time_unit = "{made.time_unit}"\n' if made.time_unit else ""
    path = folder / f"{name}.toml"
    path.write_text(f'[data]\nfile = "{name}-train.npz"\ntest_file = "{name}-test.npz"\n{unit}')
    return path


def write_named_sets(sets: Sets, description: str | None) -> None:
    """Write the files of all sets, or of those that the command line names."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=list(sets), default=list(sets))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        began = time.perf_counter()
        path = write_files(given.out, name, given.seed, sets=sets)
        print(f"{path}: {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    write_named_sets(SETS, __doc__)
