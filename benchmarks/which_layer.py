"""What one bit a weight costs in each layer: `fashion/best`'s network with one layer real, the others binary.

    python benchmarks/which_layer.py --out results/which-layer.json

A real layer has weights scaled to a mean square of 1, that of signs, so that currents and thresholds stay as they are.
A short training on part of FashionMNIST's training images; others of them judge. Minutes for each case on a CPU core.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import build_network
from bitspike.experiments.presets import preset
from bitspike.experiments.provenance import versions
from bitspike.experiments.schema import with_values
from bitspike.files import write_text
from bitspike.nn import SpikingNetwork

CASES = {0: "all layers binary", 1: "layer 1 real", 2: "layer 2 real", 3: "layer 3 real"}


class UnitScale(nn.Module):
    """Convert latent weights to real ones with a mean square of 1."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight / weight.square().mean().sqrt()


def network(real: int, steps: int, seed: int) -> SpikingNetwork:
    """Return the preset's network, with real weights in layer `real` (1 is the first; 0 is none)."""
    spec = with_values(preset("fashion/best"), [f"net.steps={steps}", "net.glances=1", f"seed={seed}"])
    net = build_network(spec, (1, 28, 28))
    ThresholdAnnealing(net, spec.net.schedules(len(net.layers)))  # writes them, constant as they are
    if real:
        synapse = net.layers[real - 1].synapse
        synapse.binary = False
        parametrize.register_parametrization(synapse, "weight", UnitScale())
    return net


def judge(net: SpikingNetwork, images: Tensor, labels: Tensor, calibrate: Tensor) -> float:
    """Return the share of `images` that the network gets right; `calibrate` gives batch norm's statistics."""
    norms = [layer.norm for layer in net.layers if layer.norm is not None]
    momenta = [norm.momentum for norm in norms]
    with torch.no_grad():
        for i, part in enumerate(calibrate.split(256)):
            for norm in norms:
                norm.momentum = 1 / (i + 1)  # the plain average
            net.train()(part)
        right = [
            (net.eval().scores(x).argmax(1) == y).sum().item()
            for x, y in zip(images.split(500), labels.split(500), strict=True)
        ]
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    net.train()
    return sum(right) / len(labels)


def train(net: SpikingNetwork, images: Tensor, labels: Tensor, *, epochs: int, batch: int, seed: int) -> float:
    """Train as the preset does, but shorter; return the accuracy on training images over the last epoch."""
    latent = [layer.synapse.weight for layer in net.layers if layer.synapse.binary]
    binary = {id(weight) for weight in latent}
    others = [p for p in net.parameters() if id(p) not in binary]
    real = [p for p in others if p.dim() > 1]  # slower: their steps are not rounded to signs
    rates = (5e-3, 2e-3, 5e-3)
    groups = ([*latent], real, [p for p in others if p.dim() <= 1])
    optimizer = torch.optim.Adam([{"params": g, "lr": r} for g, r in zip(groups, rates, strict=True)], eps=1e-12)
    drawn, total, step, right = torch.Generator().manual_seed(seed), epochs * -(-len(labels) // batch), 0, 0
    for _ in range(epochs):
        right = 0
        for rows in torch.randperm(len(labels), generator=drawn).split(batch):
            share = step / total
            factor = min(1.0, share / 0.02) * (1 + math.cos(math.pi * max(0.0, share - 0.02) / 0.98)) / 2
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            count = net(images[rows]).spikes.sum(0)
            loss = F.cross_entropy(count * (10.0 / net.steps), labels[rows], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for weight in latent:
                    weight.clamp_(-0.1, 0.1)
            right += (count.argmax(1) == labels[rows]).sum().item()
            step += 1
    return right / len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--images", type=int, default=16000)
    parser.add_argument("--judges", type=int, default=10000, help="further training images, to judge by")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file to write; what it holds already is kept")
    given = parser.parse_args()
    data = open_dataset(preset("fashion/best").data)
    if min(given.images, given.judges) < 1 or given.images + given.judges > len(data.train):
        parser.error(f"--images and --judges must be 1 or more, and together at most {len(data.train)}")
    images, labels = data.train.batch(torch.arange(given.images + given.judges))
    ours, theirs = slice(given.images), slice(given.images, None)
    for case in given.cases:
        began, net = time.perf_counter(), network(case, given.steps, given.seed)
        trained = train(net, images[ours], labels[ours], epochs=given.epochs, batch=128, seed=given.seed)
        right = judge(net, images[theirs], labels[theirs], images[:2560])
        row = {
            "case": CASES[case],
            "seed": given.seed,
            "train_accuracy": round(100 * trained, 2),
            "accuracy": round(100 * right, 2),
            "seconds": round(time.perf_counter() - began),
        }
        print(json.dumps(row), flush=True)
        if given.out is not None:
            keep(given.out, row)


def keep(path: Path, row: dict[str, object]) -> None:
    """Add a row to the file."""
    held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"runs": []}
    command = shlex.join(["python", "benchmarks/which_layer.py", *sys.argv[1:]])
    runs = [*held["runs"], {**row, "command": command, "versions": versions()}]
    write_text(path, json.dumps({"runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
