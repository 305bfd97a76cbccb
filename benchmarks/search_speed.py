"""Trials an hour of a search: one after another, several at once in one process, and several processes.

    python benchmarks/search_speed.py [fashion] [shd] [dvs128] [--trials 20] [--epochs 3] [--at-once 1 5 10]
        [--processes 4] [--data FOLDER] [--out results/search-speed.json]

Trials differ in decay, slope, dropout, learning rate, momentum and clipping, as those of a search do. They are runs
with all their files; the test samples are evaluated too. Data are those of FOLDER, or synthetic ones of the same size
and density: time does not depend on their meaning. Compilation and imports come before the clock starts, since a search
pays them once. Processes share the GPU by NVIDIA's MPS where `nvidia-cuda-mps-control` runs; each of them makes its
part of the trials, and the clock runs from when all are ready until the last has ended.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shlex
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bitspike.bench.cases import CASES, Case
from bitspike.bench.problem import synthetic, synthetic_labels
from bitspike.data.config import DataConfig
from bitspike.data.samples import Dataset, Images, Samples
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.kept_data import KeptData
from bitspike.experiments.presets import preset
from bitspike.experiments.provenance import versions
from bitspike.experiments.runs import RequestedRun, train_group
from bitspike.experiments.schema import Experiment, with_values
from bitspike.files import write_text
from bitspike.train.progress import Listener
from bitspike.train.run_folder import RunFolder
from bitspike.train.world import World

SIZES = {"fashion": (60_000, 10_000), "shd": (8_156, 2_264), "dvs128": (1_176, 288)}  # samples to train on and to test
CHUNK = 512  # synthetic samples that are drawn at once


@dataclass(frozen=True)
class Search:
    """A search to be timed: its preset, its trials, and its data."""

    name: str
    epochs: int
    data: Path | None

    def trial(self, number: int) -> Experiment:
        """Return the experiment of one trial; it depends on its number alone."""
        drawn = torch.rand(6, generator=torch.Generator().manual_seed(number)).tolist()
        settings = [
            f"net.beta={0.3 + 0.65 * drawn[0]:.4f}",
            f"net.slope={0.1 + 8 * drawn[1]:.4f}",
            f"net.dropout={0.0 if number % 5 == 0 else 0.8 * drawn[2]:.4f}",
            f"train.lr={10 ** (-4 + 2 * drawn[3]):.3g}",
            f"train.grad_clip={'none' if drawn[4] < 0.5 else 1.0}",
            f"train.weight_clip={'none' if drawn[5] < 0.5 else 1.0}",
            f"train.epochs={self.epochs}",
            "train.tensorboard=false",
            f"seed={number}",
        ]
        if preset(f"{self.name}/annealed").train.optimizer == "sgd":
            settings.append(f"train.momentum={0.9 * drawn[0]:.4f}")
        spec = with_values(preset(f"{self.name}/annealed"), settings)
        return spec if self.data else spec.model_copy(update={"data": DataConfig(passed=self.name), "name": self.name})

    def options(self) -> RunOptions:
        """Return the options of all trials, with synthetic data if there is no other."""
        device = torch.device("cuda", 0)
        if self.data is not None:
            return RunOptions(device=device, data_root=self.data)
        case, sizes = CASES[self.name], SIZES[self.name]
        classes = int(synthetic_labels(case, 4096, 0, device).max()) + 1
        train, test = (drawn_samples(case, size, seed, device) for seed, size in enumerate(sizes))
        return RunOptions(device=device, dataset=Dataset(self.name, f"{self.name}, synthetic", classes, train, test))


def drawn_samples(case: Case, count: int, seed: int, device: torch.device) -> Samples:
    """Return synthetic samples of a case, drawn a few at a time."""
    from bitspike.data.frames import frames

    labels = synthetic_labels(case, count, seed, device).cpu()
    parts = [synthetic(case, min(CHUNK, count - at), 1000 * seed + at, device) for at in range(0, count, CHUNK)]
    if case.static:
        return Images(torch.cat(parts).cpu(), labels)
    index, counts, lengths = [], [], []
    for part in parts:
        flat = part.flatten(1)
        row, place = flat.nonzero(as_tuple=True)
        index.append(place.int().cpu())
        counts.append(flat[row, place].cpu())
        lengths.append(torch.bincount(row, minlength=len(flat)).cpu())
    return frames(torch.cat(index), torch.cat(counts), torch.cat(lengths), labels, case.steps, case.input_shape)


def train(search: Search, numbers: list[int], at_once: int, options: RunOptions, kept: KeptData) -> None:
    """Train the trials of these numbers, `at_once` at a time."""
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, len(numbers), at_once):
            group = [
                RequestedRun(search.trial(number), RunFolder(Path(folder) / str(number)), Listener())
                for number in numbers[begin : begin + at_once]
            ]
            train_group(group, options, World(), together=at_once > 1, kept=kept)
    torch.cuda.synchronize()


def one_process(search: Search, trials: int, at_once: int, options: RunOptions, kept: KeptData) -> float:
    """Return the seconds of the trials in this process, after a first group that compiles."""
    train(search, list(range(100_000, 100_000 + at_once)), at_once, options, kept)
    began = time.perf_counter()
    train(search, list(range(trials)), at_once, options, kept)
    return time.perf_counter() - began


def worker(search: Search, numbers: list[int], at_once: int, ready: Any, ended: Any) -> None:
    """Make a part of the trials; wait for the others before and tell them after."""
    options, kept = search.options(), KeptData()
    train(search, list(range(100_000, 100_000 + at_once)), at_once, options, kept)
    ready.wait()
    train(search, numbers, at_once, options, kept)
    ended.wait()


def several_processes(search: Search, trials: int, at_once: int, processes: int) -> float:
    """Return the seconds of the trials in several processes."""
    context = multiprocessing.get_context("spawn")
    ready, ended = context.Barrier(processes + 1), context.Barrier(processes + 1)
    parts = [list(range(rank, trials, processes)) for rank in range(processes)]
    made = [context.Process(target=worker, args=(search, part, at_once, ready, ended)) for part in parts]
    for each in made:
        each.start()
    ready.wait(300)
    began = time.perf_counter()
    ended.wait(600)
    seconds = time.perf_counter() - began
    for each in made:
        each.join()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="*", default=["fashion", "shd"])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 5, 10])
    parser.add_argument("--processes", type=int, nargs="*", default=[4])
    parser.add_argument("--each", type=int, default=1, help="trials at once in each of several processes")
    parser.add_argument("--data", type=Path, help="a data root; without it data are synthetic")
    parser.add_argument("--out", type=Path, default=Path("results/search-speed.json"))
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    result = {"command": shlex.join(["python", *sys.argv]), "versions": versions(), "rows": rows}

    def note(name: str, processes: int, at_once: int, seconds: float) -> None:
        hour = round(3600 * args.trials / seconds)
        row = {"search": name, "epochs": args.epochs, "processes": processes, "at_once": at_once, "trials": args.trials}
        row |= {
            "seconds": round(seconds, 2),
            "trials_an_hour": hour,
            "seconds_of_500": round(500 * seconds / args.trials),
        }
        rows.append(row)
        print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
        write_text(args.out, json.dumps(result, indent=1) + "\n")

    for name in args.name:
        search = Search(name, args.epochs, args.data)
        if args.at_once:
            options, kept = search.options(), KeptData()
            for at_once in args.at_once:
                note(name, 1, at_once, one_process(search, args.trials, at_once, options, kept))
            del options, kept
        for processes in args.processes:
            note(name, processes, args.each, several_processes(search, args.trials, args.each, processes))


if __name__ == "__main__":
    main()
