"""The engine and the PyTorch network of a run, spike by spike: all layers on the run's test samples.

    python benchmarks/engine_equality.py RUN [RUN ...] [--samples N] [--batch 50] [--out FILE.json]

Counts neuron-steps, spikes, and what differs: spikes of every layer, membranes of the last layer, scores. Both run on
the CPU; the data of a run must be there (`bitspike data fetch`).
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import bitspike
from bitspike.data.samples import Samples
from bitspike.deploy.describe import describe
from bitspike.deploy.engine import Engine
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.run_data import dataset_of
from bitspike.experiments.saved import best_trial, made_with
from bitspike.nn import SpikingNetwork
from bitspike.train.numerics import as_input


def compare(net: SpikingNetwork, engine: Engine, samples: Samples, count: int, batch: int) -> dict[str, Any]:
    """Return what was compared and how much of it differs, over the first `count` samples."""
    total = {"samples": count, "neuron_steps": 0, "spikes": 0, "right": 0}
    different = {"spikes": 0, "membranes": 0, "scores": 0, "answers": 0}
    for first in range(0, count, batch):
        rows = torch.arange(first, min(first + batch, count))
        x, labels = samples.batch(rows)
        x = as_input(x, torch.float32)
        with torch.no_grad():
            layers = net.run(x)
            scores = net.output_scores(layers[-1]).numpy()
        found = engine(x, record=True)
        for ours, theirs in zip(found.layers, layers, strict=True):
            spikes = theirs.spikes.numpy()
            total["neuron_steps"] += spikes.size
            total["spikes"] += int(spikes.sum())
            different["spikes"] += int((ours.spikes.reshape(spikes.shape) != spikes).sum())
        membrane = layers[-1].membrane
        assert membrane is not None
        different["membranes"] += int((found.membrane != membrane.flatten(2).numpy()).sum())
        different["scores"] += int((found.scores != scores).sum())
        different["answers"] += int((found.scores.argmax(1) != scores.argmax(1)).sum())
        total["right"] += int((found.scores.argmax(1) == labels.numpy()).sum())
    return {**total, "accuracy": round(100 * total["right"] / count, 2), "different": different}


def main() -> None:
    """Compare every run, print a line for each, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--samples", type=int, help="the first so many; all by default")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    results: dict[str, Any] = {
        "command": shlex.join(["python", *sys.argv]),
        "versions": {"bitspike": bitspike.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "machine": platform.machine(),
    }
    for path in given.runs:
        run = best_trial(path)
        net = bitspike.load_run(run)
        test = dataset_of(made_with(run), RunOptions(device=torch.device("cpu"))).test
        count = min(given.samples or len(test), len(test))
        results[str(path)] = compare(net, Engine(describe(net)), test, count, given.batch)
        print(path, json.dumps(results[str(path)]), flush=True)
        if given.out:
            given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
