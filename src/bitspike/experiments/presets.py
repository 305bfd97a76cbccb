"""The paper's experiments and our own as presets: one TOML file for each task, every figure with its source.

A file holds the task's `title`, a table `common` with what its variants share, and one table for each variant.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from bitspike.config import unknown_key
from bitspike.data.data_tables import toml_lines
from bitspike.experiments.recipes import BASES
from bitspike.experiments.schema import Experiment, experiment, read_experiment, with_values

TASKS = ("coding", "mnist", "fashion", "dvs128", "shd", "nmnist-small", "dvs-sign")
VARIANTS = ("float32", "theta1", "fixed", "annealed")  # the paper's
DATA = (".npz", ".npy", ".h5", ".hdf5", ".hdf")  # what an experiment's `data.file` may be, or people take for it


def _variants(task: str) -> list[str]:
    """Return the variants of a task: every table of its file but `common`."""
    return [name for name, value in _tables(task).items() if isinstance(value, dict) and name != "common"]


def preset_names() -> list[str]:
    """Return the names of all presets, `task/variant`."""
    return [f"{task}/{variant}" for task in TASKS for variant in _variants(task)]


def preset(name: str) -> Experiment:
    """Return a preset by its name, such as "mnist/annealed"."""
    if name in BASES:
        raise ValueError(
            f"preset: {name} is a recipe for data of your own, not an experiment; write a TOML file with the lines "
            f"[data] and file = 'mine.npz', which takes it by itself (bitspike preset show {name} prints it)"
        )
    known = [*preset_names(), *BASES]
    if variants := [each for each in known if each.startswith(f"{name}/")]:
        raise ValueError(f"preset: no preset is named {name!r}; its variants are {', '.join(variants)}")
    if name not in known:
        raise ValueError(f"preset: {unknown_key(name, known, 'preset')}")
    task, variant = name.split("/")
    tables = _tables(task)
    values = dict(tables[variant])
    base = values.pop("base", "common" if variant in VARIANTS else None)
    values = values if base is None else _merged(tables[base], values)
    title = f"{tables['title']}, {values['title']}"
    return experiment({"name": name, **values, "title": title}, f"preset {name}")


@cache
def _tables(task: str) -> dict[str, Any]:
    """Return the tables of a task's TOML file."""
    text = resources.files("bitspike.experiments").joinpath("presets", f"{task}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def preset_or_file(name: str, settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment that the command line names: a preset, or a TOML file by its path.

    Each of `settings`, key=value, takes the place of a field.
    """
    path = Path(name)
    if name in preset_names() and not path.is_file():
        return with_values(preset(name), settings)
    if path.is_dir() and name not in TASKS:
        inside = path / "experiment.toml"
        run = f"; its experiment is {inside}" if inside.is_file() else ""
        raise ValueError(f"{name} is a folder, but an experiment is a preset or a TOML file{run}")
    if path.suffix.lower() in DATA:
        known = "holds data" if path.exists() else "does not exist"
        raise ValueError(f"{name} {known}; an experiment is a preset or a TOML file: {toml_lines(name)}")
    if path.suffix == ".toml" and not path.exists():
        raise FileNotFoundError(f"{name} does not exist; bitspike preset list shows the experiments that are built in")
    if path.suffix == ".toml" or path.is_file():
        return read_experiment(path, settings)
    return with_values(preset(name), settings)


def _merged(base: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of both merged; where both have a value, the variant's is taken."""
    merged = dict(base)
    for key, value in variant.items():
        before = merged.get(key)
        merged[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged
