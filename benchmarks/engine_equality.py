"""The engine and the PyTorch network of a run, spike by spike: all layers on the run's test samples.

    python benchmarks/engine_equality.py RUN [RUN ...] [--samples N] [--batch 50] [--fixed-point] [--out FILE.json]

Counts neuron-steps, spikes, and what differs: spikes of every layer, membranes of the last layer, scores. Both run on
the CPU; the data of a run must be there (`bitspike data fetch`). With `--fixed-point` the engine computes as a
microcontroller without floats does, and what differs is the loss of that.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

import bitspike
from bitspike.data.samples import Samples
from bitspike.deploy.describe import describe
from bitspike.deploy.engine import Engine
from bitspike.nn import SpikingNetwork
from spike_equality import batches, keep, made_by, test_samples


def compare(net: SpikingNetwork, engine: Engine, samples: Samples, count: int | None, batch: int) -> dict[str, Any]:
    """Return what was compared and how much of it differs, over the first `count` samples."""
    total = {"samples": 0, "neuron_steps": 0, "spikes": 0, "right": 0, "right_pytorch": 0}
    different = {"spikes": 0, "membranes": 0, "scores": 0, "answers": 0}
    for x, labels in batches(samples, count, batch):
        total["samples"] += len(labels)
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
        total["right_pytorch"] += int((scores.argmax(1) == labels.numpy()).sum())
    return {**total, "accuracy": round(100 * total["right"] / total["samples"], 2), "different": different}


def main() -> None:
    """Compare every run, print a line for each, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--samples", type=int, help="the first so many; all by default")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--fixed-point", action="store_true", help="the engine's membranes in whole numbers of 2^-16")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    results = made_by()
    for path in given.runs:
        net = bitspike.load_run(path)
        engine = Engine(describe(net), fixed_point=given.fixed_point)
        results[str(path)] = compare(net, engine, test_samples(path), given.samples, given.batch)
        keep(results, path, given.out)


if __name__ == "__main__":
    main()
