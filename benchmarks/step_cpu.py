"""Time of whole training steps on the CPU against snnTorch's loop, alternating in one process.

    OMP_NUM_THREADS=2 python benchmarks/step_cpu.py [fashion shd] [--rounds 5] [--no-peer] [--json FILE]

A step is forward, loss, backward, clips, optimizer and threshold update of a preset's network (annealed variants): the
FashionMNIST network (B=128, T=100, batch norm per step, SGD) on images, and the SHD network (B=32, T=333, Adam, both
clips) on event counts. The loop is written as the released code writes it: over time in Python, weights binarised,
current pooled, normalised and dropped in each step. Data are random with the datasets' shares of ink and of events.
On a machine with other work, `cpu` (processor time, with OMP_NUM_THREADS=1) says more than the time on the clock.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bitspike
from bitspike import Relax, ThresholdAnnealing, build, count_loss
from bitspike.nn.dropout import set_dropout_key


@dataclass(frozen=True)
class Case:
    """One network of the paper, and what a step of its training needs."""

    notation: str
    shape: tuple[int, ...]
    batch: int
    steps: int
    beta: float
    slope: float
    norm: bool
    dropout: tuple[float, ...]
    schedules: tuple[Relax, ...]
    clip: float | None
    optimizer: Callable[[Any], torch.optim.Optimizer]

    def data(self) -> tuple[Tensor, Tensor]:
        """Images [B, 1, 28, 28], half of them ink, or counts [T, B, 700] with 3.4 events in a hundred bins."""
        g = torch.Generator().manual_seed(0)
        labels = torch.randint(0, 10, (self.batch,), generator=g)
        if len(self.shape) == 3:
            coarse = torch.rand(self.batch, 1, 7, 7, generator=g).sub(0.5).clamp(min=0).mul(2)
            return F.interpolate(coarse, size=self.shape[1:], mode="bilinear"), labels
        return torch.poisson(torch.full((self.steps, self.batch, *self.shape), 0.034), generator=g), labels


FASHION = Case(
    "16Conv5-AP2-64Conv5-AP2-1024Dense10",
    (1, 28, 28),
    batch=128,
    steps=100,
    beta=0.868,
    slope=0.1557,
    norm=True,
    dropout=(0.648,),
    schedules=(Relax(6.9, 14.0456, 0.0368), Relax(10.25, 23.076, 0.29687), Relax(17.95, 27.886668, 0.1048)),
    clip=None,
    optimizer=lambda p: torch.optim.SGD(p, lr=8.4e-4, momentum=0.855),
)
SHD = Case(
    "700Dense3000Dense20",
    (700,),
    batch=32,
    steps=333,
    beta=0.95,
    slope=0.257,
    norm=False,
    dropout=(0.186, 0.0176),
    schedules=(Relax(13.504, 45.271, 2.78e-5), Relax(11.20, 51.12, 1.36e-5)),
    clip=1.0,
    optimizer=lambda p: torch.optim.Adam(p, lr=6.54e-4),
)
CASES = {"fashion": FASHION, "shd": SHD}


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor) -> Tensor:
        return (w >= 0).float() * 2 - 1

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class Loop(nn.Module):
    """snnTorch's network with the weights of `net`, one step of one layer at a time."""

    def __init__(self, case: Case, net: bitspike.SpikingNetwork) -> None:
        import snntorch

        super().__init__()
        surrogate = snntorch.surrogate.fast_sigmoid(slope=case.slope)
        self.synapses = nn.ModuleList()
        self.norms = nn.ModuleList()
        self.dropouts = nn.ModuleList(nn.Dropout(block.dropout.p) for block in net.layers)
        self.neurons = nn.ModuleList(
            snntorch.Leaky(beta=case.beta, threshold=s(0), spike_grad=surrogate) for s in case.schedules
        )
        for block in net.layers:
            ours = block.synapse
            if isinstance(ours, nn.Conv2d):
                synapse = nn.Conv2d(ours.in_channels, ours.out_channels, ours.kernel_size, bias=False)
                self.norms.append(nn.BatchNorm2d(ours.out_channels))
            else:
                synapse = nn.Linear(ours.in_features, ours.out_features)
                self.norms.append(nn.Identity())
            synapse.load_state_dict(ours.state_dict())
            self.synapses.append(synapse)

    def forward(self, x: Tensor, steps: int | None) -> Tensor:
        membranes = [neuron.reset_mem() for neuron in self.neurons]
        spikes = []
        for t in range(steps or len(x)):
            z = x if steps else x[t]
            for i, synapse in enumerate(self.synapses):
                w = Sign.apply(synapse.weight)
                if isinstance(synapse, nn.Conv2d):
                    current = self.norms[i](F.avg_pool2d(F.conv2d(z, w), 2))
                else:
                    current = self.dropouts[i](F.linear(z.flatten(1), w, synapse.bias))
                z, membranes[i] = self.neurons[i](current, membranes[i])
            spikes.append(z)
        return torch.stack(spikes)


def trainer(case: Case, net: nn.Module, spikes: Callable[[], Tensor], labels: Tensor) -> Callable[[], None]:
    """One training step of `net`, whose forward pass is `spikes()`."""
    parameters = list(net.parameters())
    optimizer = case.optimizer(parameters)
    annealing = ThresholdAnnealing(net, list(case.schedules))

    def step() -> None:
        loss = count_loss(spikes(), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if case.clip is not None:
            nn.utils.clip_grad_norm_(parameters, case.clip)
            with torch.no_grad():
                for p in parameters:
                    p.clamp_(-case.clip, case.clip)
        optimizer.step()
        annealing.step()

    return step


def measure(case: Case, rounds: int, peer: bool) -> dict[str, Any]:
    x, labels = case.data()
    net = build(
        case.notation,
        case.shape,
        beta=case.beta,
        theta=[s(0) for s in case.schedules],
        slope=case.slope,
        norm="step" if case.norm else None,
        dropout=case.dropout,
        steps=case.steps,
        surrogate_center="current",
        init="released",
        generator=torch.Generator().manual_seed(0),
    )
    static = case.steps if x.dim() == 1 + len(case.shape) else None
    set_dropout_key(net, torch.tensor(1))  # as training does
    runs = {"bitspike": trainer(case, net, lambda: net.observe(x, steps=static).output.spikes, labels)}
    if peer:
        loop = Loop(case, net)
        runs["snnTorch"] = trainer(case, loop, lambda: loop(x, static), labels)
    times: dict[str, list[float]] = {name: [] for name in runs}
    work: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(rounds + 1):
        for name, run in runs.items():
            for _ in range(3 if name == "bitspike" else 1):
                began, used = time.perf_counter(), time.process_time()
                run()
                if round_:  # the first warms up
                    times[name].append(1e3 * (time.perf_counter() - began))
                    work[name].append(1e3 * (time.process_time() - used))
    with torch.no_grad():
        rates = [float(c.mean()) / case.steps for c in net.observe(x, steps=static).counts()]
    row: dict[str, Any] = {
        name: {
            "median": round(statistics.median(v), 1),
            "min": round(min(v), 1),
            "max": round(max(v), 1),
            "cpu": round(min(work[name]), 1),
        }
        for name, v in times.items()
    }
    if peer:
        row["ratio"] = round(row["snnTorch"]["median"] / row["bitspike"]["median"], 2)
        row["ratio_of_cpu"] = round(row["snnTorch"]["cpu"] / row["bitspike"]["cpu"], 2)
        row["ratio_of_fastest"] = round(row["snnTorch"]["min"] / row["bitspike"]["min"], 2)
    row["spikes_per_neuron_step"] = [round(rate, 4) for rate in rates]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peer", action="store_true", help="bitspike alone")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    report: dict[str, Any] = {
        "command": shlex.join(["python", *sys.argv]),
        "threads": torch.get_num_threads(),
        "versions": {
            "bitspike": bitspike.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    for name in args.cases:
        report[name] = measure(CASES[name], args.rounds, not args.no_peer)
        print(f"{name}: milliseconds a step, {report['threads']} threads: {report[name]}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
