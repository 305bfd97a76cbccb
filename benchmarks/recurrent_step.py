"""The cost of recurrence: a training step of one network with and without it, in turns in one process.

    python benchmarks/recurrent_step.py --device cuda
    python benchmarks/recurrent_step.py --device cpu --threads 1 --batch 32

The network is 140-256-256-20 on 100 steps of random counts, as on spoken digits, with fixed thresholds. A step is the
forward pass, the count loss, the backward pass and Adam, launched without a CUDA graph. Times are medians of steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

import bitspike

NOTATION, INPUTS, CLASSES = "140-256-256-20", 140, 20


class Training:
    """One network, its optimizer, and its times."""

    def __init__(self, recurrent: bool, device: torch.device) -> None:
        torch.manual_seed(0)
        net = bitspike.build(NOTATION, theta=[8.0, 16.0, 16.0], slope=0.1, recurrent=recurrent)
        self.net = net.to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-3)
        self.seconds: list[float] = []

    def step(self, x: torch.Tensor, labels: torch.Tensor) -> None:
        """Take one step, and note how long it takes."""
        _wait(x.device)
        began = time.perf_counter()
        loss = bitspike.count_loss(self.net(x).spikes, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        _wait(x.device)
        self.seconds.append(time.perf_counter() - began)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    drawn = torch.Generator().manual_seed(0)
    counts = (torch.rand(args.steps, args.batch, INPUTS, generator=drawn) * 1.2).floor()
    x = counts.to(torch.uint8).to(device)
    labels = (torch.arange(args.batch) % CLASSES).to(device)
    trainings = {"feedforward": Training(False, device), "recurrent": Training(True, device)}
    for _ in range(3 + args.repeats):
        for training in trainings.values():
            training.step(x, labels)
    ms = {name: 1000 * statistics.median(training.seconds[3:]) for name, training in trainings.items()}
    shown = {name: round(value, 3) for name, value in ms.items()}
    why = {name: training.net.unfused(x) for name, training in trainings.items()}
    row = {
        "device": args.device,
        "batch": args.batch,
        "ms": shown,
        "ratio": round(ms["recurrent"] / ms["feedforward"], 2),
    }
    print(json.dumps({**row, "unfused": why, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
