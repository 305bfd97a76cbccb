"""The cells of benchmarks/annealing.py: what is trained, with which thresholds, and which figures are kept."""

from __future__ import annotations

import copy
import itertools
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import build_network, make_task
from bitspike.experiments.schema import Experiment, as_values, experiment
from bitspike.suggest import measure_drive, relaxing_rate
from bitspike.train.evaluation import fired
from bitspike.train.loop import Trainer
from bitspike.train.numerics import reproducible
from bitspike.train.run_folder import RunFolder
from bitspike.train.together import run_together

NETWORKS = {  # neuron layers: notation
    2: "16Conv5-AP2-2304Dense10",
    3: "16Conv5-AP2-32Conv5-AP2-512Dense10",
    4: "16Conv5-AP2-32Conv3-32Conv3-AP2-512Dense10",
    5: "16Conv5-AP2-32Conv3-32Conv3-32Conv3-AP2-288Dense10",
    6: "16Conv5-AP2-32Conv3-32Conv3-32Conv3-32Conv3-AP2-128Dense10",
}
SETTINGS = [*((depth, 1.0) for depth in NETWORKS), *((3, keep) for keep in (0.3, 0.1, 0.03))]
NORMS = ("none", "shared")
LEVELS = (1.0, 2.0, 4.0, 8.0)
TUNED = 2.0
METHODS = ("fixed", "annealed", "moving")
GRID = [(narrow, lr) for narrow in (1.0, 3.0, 10.0) for lr in (1e-3, 5e-3)]
WITHIN = 0.3
DRIVE_BATCH = 128


@dataclass(frozen=True)
class Cell:
    """One point of the study; `level` is 0 for "start", which has none."""

    depth: int
    keep: float
    norm: str
    level: float
    method: str
    narrow: float
    lr: float


@dataclass(frozen=True)
class Size:
    """How much a cell is trained. Batches are whole: the rest of an epoch would not be replayed from a graph."""

    seeds: int = 5
    train: int = 9984
    test: int = 2048
    epochs: int = 6
    batch: int = 128
    steps: int = 25

    @property
    def iterations(self) -> int:
        return self.epochs * (self.train // self.batch)


QUICK = Size(seeds=2, train=512, test=256, epochs=2, steps=10)


def to_tune() -> list[Cell]:
    """Return cells of every method at one setting, for all of GRID."""
    points = [(0.0, "start"), *((TUNED, method) for method in METHODS)]
    return [Cell(3, 1.0, norm, *point, *pair) for pair in GRID for point in points for norm in NORMS]


def cells(rows: list[dict[str, Any]]) -> list[Cell]:
    """Return the cells of the study, each method with its best of GRID in `rows`.

    The most important cells come first. Neighbours are different networks, which compile side by side.
    """
    best: dict[tuple[str, str], tuple[float, tuple[float, float]]] = {}
    for cell, row in ((cell_of(row), row) for row in rows):
        if (cell.depth, cell.keep) == (3, 1.0) and cell.level in (0.0, TUNED):
            now = (statistics.mean(run[-1] if run else 0.0 for run in row["accuracy"]), (cell.narrow, cell.lr))
            best[cell.norm, cell.method] = max(now, best.get((cell.norm, cell.method), now))
    levels = sorted(LEVELS, key=lambda level: abs(level - TUNED))
    points = [(0.0, "start"), *itertools.product(levels, METHODS)]
    return [
        Cell(*setting, norm, *point, *best[norm, point[1]][1])
        for point in points
        for norm in NORMS
        for setting in SETTINGS
        if (norm, point[1]) in best
    ]


def cell_of(row: dict[str, Any]) -> Cell:
    return Cell(**{name: row[name] for name in Cell.__dataclass_fields__})


def base(cell: Cell, size: Size, seed: int = 0, **net: Any) -> Experiment:
    """Return the experiment of a cell; `net` gives the thresholds."""
    return experiment(
        {
            "name": f"annealing/{cell.method}",
            "seed": seed,
            "data": {"name": "fashion", "keep": cell.keep, "train_limit": size.train, "test_limit": size.test},
            "net": {
                "notation": NETWORKS[cell.depth],
                "beta": 0.9,
                "slope": 1.0,
                "theta": 1.0,
                "norm": cell.norm,
                "steps": size.steps,
                **net,
            },
            "train": {
                "epochs": size.epochs,
                "batch": size.batch,
                "lr": cell.lr,
                "half_period": size.iterations,
                "protocol": "paper",
                "evaluate_batch": 512,
                "watch_every": 10**9,
                "tensorboard": False,
            },
        },
        "benchmarks/annealing.py",
    )


@cache
def data(keep: float, size: Size, device: str) -> Dataset:
    """Return the data of a cell on the device; it is read once in a process."""
    spec = base(Cell(2, keep, "none", 0.0, "start", 1.0, 1e-3), size)
    found = open_dataset(spec.data)
    return Dataset(found.name, found.title, found.classes, found.train.to(device), found.test.to(device))


@cache
def drives(depth: int, keep: float, norm: str, size: Size, device: str) -> list[tuple[float, float]]:
    """Return (theta_0, typical peak) of every layer: medians over the seeds' untrained networks, to 4 digits."""
    cell, samples = Cell(depth, keep, norm, 0.0, "start", 1.0, 1e-3), data(keep, size, device)
    batch, _ = samples.train.batch(torch.arange(min(DRIVE_BATCH, size.train), device=device))
    found = []
    for seed in range(size.seeds):
        net = build_network(base(cell, size, seed), samples.shape).to(device)
        found.append([(drive.theta, drive.typical) for drive in measure_drive(net, batch, start=0.5)])

    def median(values: Any) -> float:
        return float(f"{statistics.median(values):.4g}")

    return [(median(t for t, _ in layer), median(d for _, d in layer)) for layer in zip(*found, strict=True)]


def specs(cell: Cell, size: Size, device: str) -> list[Experiment]:
    """Return the cell's experiment for each seed, complete, as `bitspike train` takes it."""
    measured = drives(cell.depth, cell.keep, cell.norm, size, device)
    starts = [theta for theta, _ in measured]
    stops = starts if cell.method == "start" else [round(cell.level * drive, 6) for _, drive in measured]
    thetas: list[Any] = stops
    if cell.method in ("annealed", "moving"):
        rate = relaxing_rate(size.iterations, WITHIN)
        thetas = [{"start": a, "stop": b, "rate": rate} for a, b in zip(starts, stops, strict=True)]
    net = {
        "theta": thetas,
        "slope": [cell.narrow / stop for stop in stops],
        "surrogate_center": "current" if cell.method == "moving" else "initial",
    }
    return [base(cell, size, seed, **net) for seed in range(size.seeds)]


def dead_at_start(trainer: Trainer) -> list[float]:
    """Return the share of each layer's neurons that never fire on the test images before training.

    A copy is used, in training mode: batch norm has no averages yet.
    """
    net, samples = copy.deepcopy(trainer.net).train(), trainer.selection_samples
    alive: list[torch.Tensor] = []
    for rows in torch.arange(len(samples), device=trainer.device).split(512):
        now = [fired(counts)[0] for counts in net.observe(samples.batch(rows)[0]).counts()]
        alive = [a | b for a, b in zip(alive, now, strict=True)] if alive else now
    return [round(1 - mask.double().mean().item(), 5) for mask in alive]


def train_cell(cell: Cell, size: Size, device: str) -> dict[str, Any]:
    """Train the cell's seeds side by side; return the row from which figures are drawn."""
    began = time.perf_counter()
    shared_memory = Path("/dev/shm")  # a run's files are not kept, and need no disk
    with (
        tempfile.TemporaryDirectory(dir=shared_memory if os.access(shared_memory, os.W_OK) else None) as folder,
        reproducible("float32"),
    ):
        samples, experiments = data(cell.keep, size, device), specs(cell, size, device)
        trainers = [
            Trainer(
                net := build_network(spec, samples.shape),
                spec.net.schedules(len(net.layers)),
                make_task(spec, net),
                samples.train,
                samples.test,
                spec.train,
                RunFolder(Path(folder) / str(spec.seed)),
                seed=spec.seed,
            )
            for spec in experiments
        ]
        start = [dead_at_start(trainer) for trainer in trainers]
        endings = run_together(trainers)
    rows = [trainer.progress.rows for trainer in trainers]
    return {
        **asdict(cell),
        "accuracy": [[round(100 * row["test_accuracy"], 3) for row in run] for run in rows],  # [seed][epoch]
        "train_loss": [[round(row["train_loss"], 5) for row in run] for run in rows],
        "dead_start": start,  # [seed][layer]
        "dead": [[round(share, 5) for share in run[-1]["dead"]] if run else [] for run in rows],
        "spikes": [[round(count, 2) for count in run[-1]["spikes"]] if run else [] for run in rows],
        "theta": [round(theta, 4) for theta in trainers[0].thetas()],
        "net": as_values(experiments[0].net),
        "ended": list(endings),
        "graph": trainers[0].graph,
        "seconds": round(time.perf_counter() - began, 2),
    }


def attempt(cell: Cell, size: Size, device: str) -> dict[str, Any]:
    """Train a cell in a worker and report a failure; one that breaks the GPU for all after it ends the process."""
    torch.set_num_threads(1)
    try:
        return train_cell(cell, size, device)
    except Exception as error:
        line = (str(error).strip().splitlines() or [""])[0]
        print(f"{cell}: {type(error).__name__}: {line}", file=sys.stderr, flush=True)
        if "CUDA" in line and "out of memory" not in line:
            os._exit(1)
        return {**asdict(cell), "error": f"{type(error).__name__}: {line}"}
