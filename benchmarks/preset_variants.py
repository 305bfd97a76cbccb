"""Variants of a preset, judged by training samples that are held out or by the test set.

    python benchmarks/preset_variants.py A B C D E --variants FILE.json --out FILE.json [--preset shd/small]
    python benchmarks/preset_variants.py test --variants FILE.json --seeds 5 --out FILE.json

Choose by the five folds, A to E. Of SHD each holds out two speakers of the training set, together all ten; of a set
without speakers it holds out another random fifth of each class. `test` trains with all training samples and judges by
the test set: it chooses nothing. A file of variants holds {"name": ["key=value", ...]}, settings as `bitspike train
--set` takes them; `[]` is the preset itself. All seeds of a variant are trained together, and the last epoch counts.
The file is written after each variant, and the same command goes on. Say "SHD regenerated" with the numbers if the data
was that.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import bitspike
from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import RunOptions, build_network, check_fit, make_task, pick_device
from bitspike.experiments.presets import preset
from bitspike.experiments.run_data import RunData
from bitspike.experiments.schema import Experiment, with_values
from bitspike.files import write_text
from bitspike.train.loop import Trainer
from bitspike.train.numerics import reproducible
from bitspike.train.run_folder import RunFolder
from bitspike.train.together import run_together

FOLDS = {"A": (1, 8), "B": (3, 10), "C": (0, 9), "D": (2, 7), "E": (6, 11)}
ALWAYS = ("train.tensorboard=false", "train.watch_every=1000000", "train.on_nan=warn")


def judged_by(fold: str, data_set: str | None) -> list[str]:
    """Return the settings that hold out the samples of a fold, or that judge by the test set."""
    if fold == "test":
        return [*ALWAYS, "train.protocol=paper"]
    held_out = [f"data.split_seed={list(FOLDS).index(fold)}", "data.validation_share=0.2"]
    if data_set == "shd":
        held_out = [f"data.validation_groups={list(FOLDS[fold])}"]
    return [*ALWAYS, "train.protocol=holdout", *held_out]


def train(spec: Experiment, seeds: range, data: RunData, shape: tuple[int, ...]) -> list[dict[str, Any]]:
    """Train the seeds of a variant together; return the last row of each one's metrics."""
    with tempfile.TemporaryDirectory() as runs, reproducible("float32"):
        trainers = []
        for seed in seeds:
            seeded = spec.model_copy(update={"seed": seed})
            net = build_network(seeded, shape)
            check_fit(seeded, net, data.dataset)
            task = make_task(seeded, net, data.train.labels)
            schedules, folder = seeded.net.schedules(len(net.layers)), RunFolder(Path(runs) / str(seed))
            chosen_by = data.selection(seeded)
            trainers.append(
                Trainer(
                    net,
                    schedules,
                    task,
                    data.train,
                    chosen_by,
                    seeded.train,
                    folder,
                    seed=seed,
                    repeat=spec.data.repeat,
                )
            )
        run_together(trainers)
        return [trainer.progress.rows[-1] for trainer in trainers]


def entry_of(rows: list[dict[str, Any]], fold: str, seeds: range) -> dict[str, Any]:
    """Return the figures of a variant in a fold: percentages, and hidden spikes a sample by layer."""
    judged = "test_accuracy" if fold == "test" else "valid_accuracy"
    return {
        "seeds": list(seeds),
        "accuracy": [round(100 * row[judged], 2) for row in rows],
        "training": [round(100 * row["train_accuracy"], 2) for row in rows],
        "spikes": [[round(count) for count in row["spikes"][:-1]] for row in rows],
    }


def table(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return a Markdown table: a row a variant, a column a fold, and the mean of the folds."""
    folds = list(dict.fromkeys(fold for entries in found.values() for fold in entries))
    lines = [f"| variant | {' | '.join(folds)} | mean | training |", "|---|" + "--:|" * (len(folds) + 2)]
    for name, entries in found.items():
        means = {fold: statistics.mean(entry["accuracy"]) for fold, entry in entries.items()}
        training = statistics.mean(value for entry in entries.values() for value in entry["training"])
        cells = [f"{means[fold]:.1f}" if fold in means else "-" for fold in folds]
        lines.append(f"| {name} | {' | '.join(cells)} | {statistics.mean(means.values()):.2f} | {training:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folds", nargs="+", choices=[*FOLDS, "test"], metavar="FOLD", help="A to E, or test")
    parser.add_argument("--variants", type=Path, required=True, metavar="FILE.json")
    parser.add_argument("--preset", default="shd/best")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="for all")
    parser.add_argument("--seeds", type=int, default=1, help="networks a variant and fold")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    variants: dict[str, list[str]] = json.loads(given.variants.read_text(encoding="utf-8"))
    seeds, device = range(given.first_seed, given.first_seed + given.seeds), pick_device(given.device)
    header = {
        "command": shlex.join(["python", *sys.argv]), "preset": given.preset, "variants": variants,
        "versions": {"bitspike": bitspike.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
    }  # fmt: skip
    found: dict[str, dict[str, dict[str, Any]]] = {}
    if given.out.exists():
        found = json.loads(given.out.read_text(encoding="utf-8"))["found"]
    for fold in given.folds:
        chosen = preset(given.preset)
        base = with_values(chosen, [*judged_by(fold, chosen.data.name), *given.settings])
        dataset = open_dataset(base.data)
        data = RunData.on_device(base, dataset, RunOptions(device=device))
        for name, settings in variants.items():
            if fold in found.get(name, {}):
                continue
            began = time.perf_counter()
            try:
                spec = with_values(base, settings)
                if spec.data != base.data:
                    raise ValueError("a variant must not change [data], which all share; use --set")
                rows = train(spec, seeds, data, dataset.shape)
            except ValueError as error:
                sys.exit(f"preset_variants: {name}: {error}")
            found.setdefault(name, {})[fold] = entry_of(rows, fold, seeds)
            print(f"{fold}, {name}: {found[name][fold]['accuracy']}, {time.perf_counter() - began:.0f} s", flush=True)
            write_text(given.out, json.dumps({**header, "found": found}, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
