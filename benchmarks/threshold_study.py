"""Which threshold suits a layer? Levels of 0.06 to 2 times the drive, fixed and annealed, on events and images.

    python benchmarks/threshold_study.py --out results/thresholds.json          # on a GPU, under 5 minutes
    python benchmarks/threshold_study.py --out quick.json --quick               # a try on a CPU
    python benchmarks/threshold_study.py --out images.json --only mnist fashion # on a CPU, about half an hour
    python benchmarks/threshold_study.py --table results/thresholds.json

A level is the final threshold in units of each layer's drive (`bitspike.suggest`), measured with the layers before it
at that level too: medians over the seeds' untrained networks. "fixed" is the level from the first iteration on,
"annealed" starts at half of it and covers 95 % of the way in 30 % of the iterations. Networks: "plain", "norm" (batch
norm behind every synapse) and "recurrent". The surrogate is in units of the drive too, slope = NARROW / drive, and the
same for every level. All else is one recipe for all, untuned. The accuracy is that of the last epoch on the test set.

All runs of a set and a network (levels x methods x seeds) are trained at the same time in one process.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import bitspike
from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import build_network, check_fit, make_task
from bitspike.experiments.schema import Experiment, experiment
from bitspike.nn.access import neuron_layers
from bitspike.suggest import relaxing_rate
from bitspike.suggest.measure import measured
from bitspike.train.loop import Trainer
from bitspike.train.numerics import as_input, reproducible
from bitspike.train.run_folder import RunFolder
from bitspike.train.together import run_together
from threshold_sets import BUILT_IN, DRAWN, IMAGES, present, write_drawn
from threshold_tables import tables

LEVELS = (0.06, 0.125, 0.25, 0.5, 1.0, 2.0)
METHODS = ("fixed", "annealed")
NETWORKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "norm": {"dense_norm": True},
    "recurrent": {"recurrent": True},
}
NARROW = 2.0
WITHIN = 0.3
DRIVE_BATCH = 128
STATIC_STEPS = 25  # for which an image is shown


@dataclass(frozen=True)
class Size:
    """How much is trained; few epochs of many passes, as evaluations and checkpoints cost more than iterations."""

    seeds: int = 5
    train: int = 1200
    test: int = 600
    passes: int = 5
    epochs: int = 4
    batch: int = 100
    hidden: int = 128

    @property
    def iterations(self) -> int:
        return self.epochs * (self.train * self.passes // self.batch)


QUICK = Size(seeds=2, train=300, test=200, passes=4, epochs=2, batch=50, hidden=48)


def groups(names: list[str], *, quick: bool) -> list[tuple[str, str]]:
    """Return the pairs of a set and a network; recurrent networks only where drawn sets are short, as they are slow."""
    networks = ("plain", "norm") if quick else tuple(NETWORKS)
    short = [name for name in names if name in DRAWN and DRAWN[name].steps <= 100]
    return [(name, net) for name in names for net in networks if net != "recurrent" or name in short]


def notation(data: Dataset, size: Size) -> str:
    """Return dense layers for a row of channels or an image, and two convolutions for a camera."""
    if len(data.shape) == 1 or data.train.steps is None:
        return f"{math.prod(data.shape)}Dense{size.hidden}Dense{size.hidden}Dense{data.classes}"
    height, width = (((side - 4) // 2 - 4) // 2 for side in data.shape[1:])
    return f"8Conv5-AP2-16Conv5-AP2-{16 * height * width}Dense{data.classes}"


def spec_of(data: dict[str, Any], net: dict[str, Any], size: Size, seed: int = 0) -> Experiment:
    """Return an experiment, as `bitspike train` takes it."""
    return experiment(
        {
            "name": "threshold_study",
            "seed": seed,
            "data": data,
            "net": {
                "notation": "1-1",
                "beta": 0.95,
                "slope": 1.0,
                "theta": 1.0,
                "surrogate_center": "current",
                **net,
            },
            "train": {
                "epochs": size.epochs,
                "batch": size.batch,
                "lr": 3e-3,
                "schedule": "decay",
                "loss": "cross_entropy",
                "protocol": "paper",
                "on_nan": "warn",  # one that ended would make all others begin their recording anew
                "watch_every": 10**9,
                "tensorboard": False,
            },
        },
        "benchmarks/threshold_study.py",
    )


def drives(spec: Experiment, data: Dataset, level: float, size: Size, device: str) -> list[float]:
    """Return the drive of each layer with those before it at `level`: medians over the seeds' untrained networks."""
    batch, _ = data.train.batch(torch.arange(min(DRIVE_BATCH, len(data.train)), device=device))
    found = []
    for seed in range(size.seeds):
        net = build_network(spec.model_copy(update={"seed": seed}), data.shape).to(device)
        layers, x = neuron_layers("threshold_study", net), as_input(batch, torch.float32)
        drive = measured(net, x, layers, lambda drive: min(level, 0.99) * drive.typical)
        found.append([each.typical for each in drive])
    return [float(f"{statistics.median(layer):.4g}") for layer in zip(*found, strict=True)]


def train_group(name: str, kind: str, size: Size, device: str, folder: Path) -> dict[str, Any]:
    """Train all levels, methods and seeds of a set and a network at the same time; return their rows."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    limits = {"train_limit": size.train, "test_limit": size.test}
    values = {**BUILT_IN[name], "name": name, **limits} if name in BUILT_IN else None
    values = values or write_drawn(name, folder, size.train, size.test)
    opened = open_dataset(spec_of(values, {}, size).data)
    data = Dataset(opened.name, opened.title, opened.classes, opened.train.to(device), opened.test.to(device))
    camera = {"norm": "shared"} if "Conv" in notation(data, size) and kind == "norm" else {}
    static = {"steps": STATIC_STEPS} if data.train.steps is None else {}
    net = {"notation": notation(data, size), **NETWORKS[kind], **camera, **static}
    iterations = size.epochs * -(-len(data.train) * size.passes // size.batch)
    rows, trainers = [], []
    memory = Path("/dev/shm")  # a run's files are not kept, and need no disk
    with (
        tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as runs,
        reproducible("float32"),
    ):
        for level in LEVELS:
            found = drives(spec_of(values, net, size), data, level, size, device)
            stops = [float(f"{level * drive:.6g}") for drive in found]
            rate = relaxing_rate(iterations, WITHIN)
            rising = [{"start": stop / 2, "stop": stop, "rate": rate} for stop in stops]
            for method, thetas in zip(METHODS, (stops, rising), strict=True):
                theta = {"theta": thetas, "slope": [NARROW / drive for drive in found]}
                rows.append(
                    {"set": name, "net": kind, "level": level, "method": method, "drive": found, "theta": stops}
                )
                for seed in range(size.seeds):
                    spec = spec_of(values, net | theta, size, seed)
                    built = build_network(spec, data.shape)
                    check_fit(spec, built, data)
                    trainers.append(
                        Trainer(
                            built,
                            spec.net.schedules(len(built.layers)),
                            make_task(spec, built),
                            data.train,
                            data.test,
                            spec.train,
                            RunFolder(Path(runs) / str(len(trainers))),
                            seed=seed,
                            repeat=size.passes,
                        )
                    )
        run_together(trainers)
    for place, row in enumerate(rows):
        own = [trainer.progress.rows for trainer in trainers[place * size.seeds :][: size.seeds]]
        row["accuracy"] = [round(100 * run[-1]["test_accuracy"], 3) if run else 0.0 for run in own]
        row["dead"] = [[round(share, 4) for share in run[-1]["dead"]] if run else [] for run in own]
    seconds = round(time.perf_counter() - began, 2)
    return {"set": name, "net": kind, "title": data.title, "seconds": seconds, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/thresholds.json"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=4, help="sets and networks trained at the same time")
    parser.add_argument("--quick", action="store_true", help="two small sets and two seeds, for a CPU")
    parser.add_argument("--only", nargs="+", choices=[*DRAWN, *BUILT_IN], help="these sets")
    parser.add_argument("--table", type=Path, metavar="RESULTS")
    args = parser.parse_args()
    if args.table:
        print(tables(json.loads(args.table.read_text(encoding="utf-8"))["rows"]))
        return
    size, began = QUICK if args.quick else Size(), time.monotonic()
    names = (
        ["6 channels, short, dense", "128 channels, short, sparse"]
        if args.quick
        else [*DRAWN, *(name for name in present() if name not in IMAGES)]
    )
    wanted = groups(args.only or names, quick=args.quick)
    result: dict[str, Any] = {
        "command": shlex.join(["python", *sys.argv]),
        "versions": {"bitspike": bitspike.__version__, "torch": torch.__version__},
        "device": torch.cuda.get_device_name() if args.device == "cuda" else args.device,
        "size": asdict(size),
        "groups": [],
        "rows": [],
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1 if args.quick else args.workers, get_context("spawn")) as pool,
    ):
        pending = [pool.submit(train_group, *each, size, args.device, Path(folder)) for each in wanted]
        for (name, kind), future in zip(wanted, pending, strict=True):
            try:
                done = future.result()
            except Exception as error:
                print(f"{name}, {kind}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            result["rows"] += done.pop("rows")
            result["groups"].append(done)
            result["seconds"] = round(time.monotonic() - began, 1)
            args.out.write_text(json.dumps(result, indent=1), encoding="utf-8")
            print(f"{name}, {kind}: {done['seconds']} s; {result['seconds']} s so far", flush=True)
    print(tables(result["rows"]))


if __name__ == "__main__":
    main()
