"""Variants of a base recipe on several sets: all variants and seeds of a set are trained together.

    python benchmarks/recipe_study.py [SETS] [--variant "NAME: KEY=VALUE KEY=VALUE" ...] [--variants FILE.json]
        [--seeds 3] [--fewer 4] [--set KEY=VALUE ...] [--baselines] [--out FILE.json] [--quick]

A set is one of benchmarks/sensor_sets.py, benchmarks/judge_sets.py or benchmarks/own_data_study.py, one of these with
its channels repeated K times (`ecg-4-x8`), or an experiment file. Variants are settings as `bitspike train --set` takes
them; a JSON file has them as {"name": ["key=value", ...]}. Without any, those of benchmarks/recipe_variants.py are
compared. `{longest}` in a setting is the longest delay that the recipe gives the set. Accuracies are those of the test
samples after the last epoch, in percent (protocol "paper"): what they choose, they do not judge. `--fewer K` evaluates
about K times less often, in as many passes. A training that ended before its first epoch did has the accuracy null,
which no mean counts. The file is written after each set, and the same command goes on with the next. `--quick` trains
one seed of two variants for one short epoch, to try the script on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import bitspike
import judge_sets
import own_data_study
import sensor_sets
from bitspike.analysis.baselines import baselines
from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import build_network, check_fit, make_task, pick_device
from bitspike.experiments.schema import Experiment, read_experiment
from bitspike.train.loop import Trainer
from bitspike.train.numerics import reproducible
from bitspike.train.run_folder import RunFolder
from bitspike.train.together import run_together
from recipe_variants import variants_for

Variants = Mapping[str, Sequence[str]]
SENSOR_SEED, STUDY_SEED = 0, 1  # own_data_study.py judges with sets of seed 0, so that others are taken here
JUDGE_SEED = 0
FILE_SETS = ((sensor_sets.SETS, SENSOR_SEED), (judge_sets.JUDGES, JUDGE_SEED))  # they have a test file of their own
MORE_SETS = ("coincidence-64", "rhythm-12", "sweep-32")
ALWAYS = ("train.tensorboard=false", "train.protocol=paper", "train.watch_every=1000000", "train.on_nan=warn")
QUICK = ("train.epochs=1", "data.repeat=1", "data.train_limit=60", "data.test_limit=30")


@dataclass(frozen=True, slots=True)
class Options:
    """Settings that all sets of a study share."""

    seeds: int
    fewer: int
    together: int
    settings: tuple[str, ...]
    variants: Variants | None
    baselines: bool
    quick: bool
    device: torch.device


def set_file(folder: Path, name: str) -> Path:
    """Return the experiment file of a set; its data are made and written into the folder."""
    if name.endswith(".toml"):
        return Path(name)
    found = re.fullmatch(r"(.+)-x([1-9][0-9]?)", name)
    plain, copies = (found[1], int(found[2])) if found else (name, 1)
    for sets, seed in FILE_SETS:
        if plain in sets:
            return sensor_sets.write_files(folder, plain, seed, copies, sets)
    if plain not in own_data_study.SETS:
        known = ", ".join([*sensor_sets.SETS, *judge_sets.JUDGES, *own_data_study.SETS])
        raise ValueError(f"no set is called {name}: give an experiment file (FILE.toml) or one of {known}")
    made = own_data_study.SETS[plain]
    arrays: dict[str, Any] = own_data_study.made_arrays(made, STUDY_SEED)
    if copies > 1:
        arrays = sensor_sets.repeated(arrays, made.channels, copies)
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    path = folder / f"{name}.toml"
    path.write_text(f'[data]\nfile = "{name}.npz"\ntime_unit = "ms"\n')
    return path


def given_variants(texts: Iterable[str], file: Path | None) -> dict[str, list[str]] | None:
    """Return the variants of the command line, by name; None if there are none."""
    found: dict[str, list[str]] = {} if file is None else json.loads(file.read_text(encoding="utf-8"))
    for text in texts:
        name, colon, settings = text.partition(":")
        if not colon:
            raise ValueError(f'--variant must be "NAME: KEY=VALUE ...", but is {text!r}; "NAME:" alone changes nothing')
        found[name.strip()] = settings.split()
    return found or None


def trainer_for(spec: Experiment, seed: int, data: Dataset, folder: Path) -> Trainer:
    """Return a trainer that tests on the test samples after each epoch."""
    spec = spec.model_copy(update={"seed": seed})
    net = build_network(spec, data.shape)
    check_fit(spec, net, data)
    task = make_task(spec, net, data.train.labels)
    schedules, repeat = spec.net.schedules(len(net.layers)), spec.data.repeat
    return Trainer(net, schedules, task, data.train, data.test, spec.train, RunFolder(folder), seed=seed, repeat=repeat)


def variant_of(path: Path, common: Sequence[str], settings: Sequence[str], base: Experiment) -> Experiment:
    """Return the experiment of a variant; it must read the samples as the recipe does."""
    longest = str(base.net.longest_delay)
    spec = read_experiment(path, [*common, *(setting.replace("{longest}", longest) for setting in settings)])
    if spec.data != base.data:
        raise ValueError("a variant must not change [data]: all share the same samples; use --set for all variants")
    return spec


def train_all(trainers: Sequence[tuple[str, Trainer]], together: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train so many at a time; return the accuracies of the last epoch by variant, on test and training samples.

    A training that ended before its first epoch did has None.
    """
    tested: dict[str, list[float | None]] = {}
    trained: dict[str, list[float | None]] = {}
    for first in range(0, len(trainers), together):
        part = trainers[first : first + together]
        run_together([trainer for _, trainer in part])
        for name, trainer in part:
            rows = trainer.progress.rows
            for accuracies, key in ((tested, "test_accuracy"), (trained, "train_accuracy")):
                accuracies.setdefault(name, []).append(round(100 * rows[-1][key], 2) if rows else None)
    return tested, trained


def study(name: str, path: Path, options: Options) -> dict[str, Any]:
    """Train the variants and seeds of a set; return its entry of the results."""
    began = time.perf_counter()
    common = [*ALWAYS, *(QUICK if options.quick else ()), *options.settings]
    base = read_experiment(path, common)
    if options.fewer > 1 and not options.quick:
        epochs = max(1, base.train.epochs // options.fewer)
        repeat = round(base.train.epochs * base.data.repeat / epochs)
        common += [f"train.epochs={epochs}", f"data.repeat={repeat}"]
        base = read_experiment(path, common)
    opened = open_dataset(base.data)
    train, test = opened.train.to(options.device), opened.test.to(options.device)
    data = Dataset(opened.name, opened.title, opened.classes, train, test)
    variants = options.variants or variants_for(data.shape, data.train.steps)
    if options.quick:
        variants = {variant: variants[variant] for variant in list(variants)[:2]}
    entry: dict[str, Any] = {
        "set": name, "shape": list(data.shape), "classes": data.classes, "samples": [len(train), len(test)],
        "network": base.net.notation, "steps": base.data.steps or base.net.steps,
        "longest_delay": base.net.longest_delay, "batch": base.train.batch,
        "passes": base.train.epochs * base.data.repeat, "refused": {}, "no_result": {},
        "settings": {variant: list(settings) for variant, settings in variants.items()},
    }  # fmt: skip
    if options.baselines:
        simple = baselines(opened.train, opened.test)
        entry["baselines"] = {"majority": round(100 * simple.majority, 2), "logistic": round(100 * simple.logistic, 2)}
    memory = Path("/dev/shm")  # a run's files are not kept, and need no disk
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as runs, reproducible("float32"):
        trainers: list[tuple[str, Trainer]] = []
        for variant, settings in variants.items():
            try:
                spec = variant_of(path, common, settings, base)
                for seed in range(1 if options.quick else options.seeds):
                    trainers.append((variant, trainer_for(spec, seed, data, Path(runs) / str(len(trainers)))))
            except ValueError as error:
                entry["refused"][variant] = str(error)
                print(f"{name}, {variant}: refused: {error}", file=sys.stderr, flush=True)
        entry["accuracies"], entry["training"] = train_all(trainers, options.together)
    for variant, values in entry["accuracies"].items():
        if None in values:
            entry["no_result"][variant] = values.count(None)
            ended = f"{values.count(None)} of {len(values)} trainings ended before their first epoch did"
            print(f"{name}, {variant}: no result: {ended}", file=sys.stderr, flush=True)
    entry["seconds"] = round(time.perf_counter() - began, 1)
    return entry


def table(sets: Sequence[Mapping[str, Any]], variants: Sequence[str]) -> str:
    """Return a Markdown table of means over the seeds; "-" where a set did not have a variant, or no result of it."""

    def cell(values: Sequence[float | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{statistics.mean(known):.1f}" if known else "-"

    lines = ["| " + " | ".join(["set", "majority", "logistic", *variants]) + " |"]
    lines.append("|---|" + "--:|" * (2 + len(variants)))
    for entry in sets:
        simple, accuracies = entry.get("baselines") or {}, entry["accuracies"]
        cells = [cell([simple[key]] if key in simple else []) for key in ("majority", "logistic")]
        cells += [cell(accuracies.get(variant, [])) for variant in variants]
        lines.append("| " + " | ".join([entry["set"], *cells]) + " |")
    return "\n".join(lines)


def begun(out: Path | None, header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sets that a file of the same study already holds."""
    if out is None or not out.exists():
        return []
    held = json.loads(out.read_text(encoding="utf-8"))
    if held.get("options") != header["options"]:
        raise ValueError(f"{out} holds a study with other options; choose another --out, or remove it")
    sets: list[dict[str, Any]] = held["sets"]
    return sets


def main() -> None:
    """Train every set, print a line for each, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME: KEY=VALUE ...")
    parser.add_argument("--variants", type=Path, metavar="FILE.json")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fewer", type=int, default=4, help="evaluate this many times less often")
    parser.add_argument("--together", type=int, default=18, help="trainings at a time")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--baselines", action="store_true", help="majority class and logistic regression, too")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    device, variants = pick_device(given.device), given_variants(given.variant, given.variants)
    options = Options(
        given.seeds, given.fewer, given.together, tuple(given.settings), variants, given.baselines, given.quick, device
    )
    torch.set_num_threads(1)
    header: dict[str, Any] = {
        "command": shlex.join(["python", *sys.argv]),
        "versions": {"bitspike": bitspike.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "options": {
            "seeds": 1 if given.quick else given.seeds, "fewer": given.fewer, "settings": given.settings,
            "variants": variants, "quick": given.quick, "data_seeds": [SENSOR_SEED, STUDY_SEED, JUDGE_SEED],
        },
    }  # fmt: skip
    sets = begun(given.out, header)
    done = {entry["set"] for entry in sets}
    names = given.sets or (["imu-6"] if given.quick else [*sensor_sets.SENSORS, *MORE_SETS])
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if name in done:
                continue
            sets.append(study(name, set_file(Path(folder), name), options))
            print(f"{name}: {sets[-1]['seconds']} s", flush=True)
            if given.out:
                given.out.write_text(json.dumps({**header, "sets": sets}, indent=1) + "\n", encoding="utf-8")
    print(table(sets, list(dict.fromkeys(variant for entry in sets for variant in entry["accuracies"]))))


if __name__ == "__main__":
    main()
