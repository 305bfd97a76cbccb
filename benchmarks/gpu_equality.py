"""A network on a GPU and on the CPU, spike by spike: all layers on a run's test samples, in evaluation mode.

    python benchmarks/gpu_equality.py [RUN ...] [--device cuda] [--limit N] [--tf32] [--out FILE.json]

The CPU side is what the engine gives, bit for bit (engine_equality.py). The GPU side is what `net(x)` gives: fused
kernels where they take the network, its modules elsewhere; `path` in the result says which. Counts neuron-steps, spikes
and what differs: spikes of each layer, samples with any other spike, answers, and the largest difference of a score.
A spike of one layer that differs changes layers behind it too. RUN is mnist's, fashion's and SHD's best by default.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import bitspike
from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.glances import in_time
from bitspike.train.numerics import reproducible
from spike_equality import batches, keep, made_by, test_samples

RUNS = [Path("results/best/mnist"), Path("results/best/fashion"), Path("results/shd-best")]


def spikes_on_device(net: SpikingNetwork, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the spikes of all layers and the scores, by the path that `net(x)` takes."""
    if net.unfused(x) is not None:
        layers = net.run(x)
        return [layer.spikes for layer in layers], net.output_scores(layers[-1])
    output, hidden = net._run_fused(x, None)
    return [*(in_time(spikes, net.glances) for spikes in hidden.spikes()), output.spikes], net.output_scores(output)


@torch.no_grad()
def compare(
    net: SpikingNetwork, device: torch.device, samples: Samples, limit: int | None, batch: int
) -> dict[str, Any]:
    """Return what was compared and how much of it differs, over the first `limit` samples."""
    there = copy.deepcopy(net).to(device)
    names = net.neuron_names()
    total = {"samples": 0, "neuron_steps": 0, "spikes": 0, "right_cpu": 0, "right_device": 0}
    flipped = torch.zeros(len(names), dtype=torch.int64, device=device)
    touched = answers = 0
    farthest = seconds = 0.0
    path = ""
    for x, labels in batches(samples, limit, batch):
        start = time.perf_counter()
        layers = net.run(x, keep_hidden_membrane=False)
        scores = net.output_scores(layers[-1])
        seconds += time.perf_counter() - start
        x = x.to(device)
        path = f"modules: {why}" if (why := there.unfused(x)) else "fused"
        found, found_scores = spikes_on_device(there, x)
        other = torch.zeros(len(labels), dtype=torch.bool, device=device)
        for i, (here, got) in enumerate(zip(layers, found, strict=True)):
            wanted = here.spikes.to(device)
            differs = got != wanted
            total["neuron_steps"] += differs.numel()
            total["spikes"] += int(wanted.sum(dtype=torch.float64))
            flipped[i] += differs.sum()
            other |= differs.transpose(0, 1).flatten(1).any(1)
        found_scores = found_scores.cpu()
        total["samples"] += len(labels)
        total["right_cpu"] += int((scores.argmax(1) == labels).sum())
        total["right_device"] += int((found_scores.argmax(1) == labels).sum())
        touched += int(other.sum())
        answers += int((found_scores.argmax(1) != scores.argmax(1)).sum())
        farthest = max(farthest, float((found_scores - scores).abs().max()))
    return {
        **total,
        "path": path,
        "cpu_seconds": round(seconds, 1),
        "different": {
            "spikes": dict(zip(names, flipped.tolist(), strict=True)),
            "samples": touched,
            "answers": answers,
            "largest_of_a_score": farthest,
        },
    }


def main() -> None:
    """Compare every run, print a line for each, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", default=RUNS)
    parser.add_argument("--device", default="cuda", type=torch.device)
    parser.add_argument("--limit", type=int, help="the first so many samples; all by default")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--tf32", action="store_true", help="allow TF32, PyTorch's default for convolutions")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    device: torch.device = given.device
    results = made_by() | {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "tf32": given.tf32,
    }
    with reproducible("tf32" if given.tf32 else "float32"):
        for path in given.runs:
            net = bitspike.load_run(path)
            results[str(path)] = compare(net, device, test_samples(path), given.limit, given.batch)
            keep(results, path, given.out)


if __name__ == "__main__":
    main()
