"""Where does the temporal coding task succeed? A grid around the paper's numbers, every network in one batch.

    python benchmarks/coding_grid.py --device cuda --seeds 20 --out results/coding-grid.json

Each configuration is the binary 100-1000-1 network of `bitspike reproduce coding` with its threshold annealed from
`start` to `stop`, or fixed at `stop` from the beginning; each row of the output says how often the trained output
neuron was active and fired within one step of the target over the last 300 of 1000 iterations.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import sys
import time
from pathlib import Path

import torch

import bitspike
from bitspike.data.coding import INPUTS, STEPS, TARGET_TIME, target_trace
from bitspike.experiments.reproduce.coding.network import HIDDEN, SLOPE
from bitspike.experiments.reproduce.coding.training import MOMENTUM
from bitspike.nn.initial import bounds
from bitspike.ops import binarize, lif

GRID = {
    "beta": (0.15,),
    "start": (2.0, 5.0, None),  # None: fixed at stop
    "stop": (10.0, 15.0, 20.0, 25.0, 30.0, 50.0),
    "rate": (2e-3, 5e-3, 2e-2),
    "center": ("initial", "current"),
    "init": ("torch", "released"),
    "learning_rate": (1e-5, 1e-4, 1e-3),  # of the summed error; 1e-5 is the mean error at the table's 1e-3
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    configs = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    # A fixed threshold has no rate, and a surrogate that cannot move.
    configs = [c for c in configs if c["start"] or (c["rate"], c["center"]) == (GRID["rate"][0], GRID["center"][0])]
    nets = [(config, seed) for config in configs for seed in range(args.seeds)]
    device = torch.device(args.device)

    def column(name: str) -> torch.Tensor:
        return torch.tensor([config[name] or config["stop"] for config, _ in nets], device=device)

    drawn: dict[tuple[str, int], list[torch.Tensor]] = {}
    for init, seed in itertools.product(GRID["init"], range(args.seeds)):
        g = torch.Generator().manual_seed(seed)
        rates = torch.rand(STEPS, INPUTS, generator=g)
        tensors = [bitspike.poisson(rates, generator=g)]
        for inputs, outputs in ((INPUTS, HIDDEN), (HIDDEN, 1)):
            w, b = bounds(init, inputs, outputs)
            tensors.append(torch.empty(outputs, inputs).uniform_(-w, w, generator=g))
            tensors.append(torch.empty(outputs).uniform_(-b, b, generator=g))
        drawn[init, seed] = tensors
    x, w1, b1, w2, b2 = (
        torch.stack([drawn[config["init"], seed][i] for config, seed in nets]).to(device) for i in range(5)
    )
    parameters = [p.requires_grad_() for p in (w1, b1, w2, b2)]
    momentum = [torch.zeros_like(p) for p in parameters]
    beta, start, stop, rate, lr = map(column, ("beta", "start", "stop", "rate", "learning_rate"))
    clamped = torch.tensor([config["center"] == "initial" for config, _ in nets], device=device)
    target = torch.stack([target_trace(config["stop"]) for config, _ in nets], 1).to(device)
    history = torch.zeros(args.iterations, STEPS, len(nets), dtype=torch.bool, device=device)
    dead = torch.zeros(args.iterations, len(nets), device=device)
    began = time.time()
    for k in range(args.iterations):
        theta = stop - (stop - start) * (1 - rate) ** k
        center = torch.where(clamped, start, theta)
        current = torch.baddbmm(b1[:, None], x, binarize(w1).transpose(1, 2)).transpose(0, 1)
        hidden = lif(current, beta=beta[:, None], theta=theta[:, None], theta_grad=center[:, None], slope=SLOPE).spikes
        current = torch.baddbmm(b2[:, None], hidden.transpose(0, 1), binarize(w2).transpose(1, 2)).squeeze(2).t()
        out = lif(current, beta=beta, theta=theta, theta_grad=center, slope=SLOPE)
        loss = ((target - out.membrane) ** 2).sum(0)
        history[k] = out.spikes.bool()
        dead[k] = (hidden.detach().amax(0) == 0).float().mean(1)
        gradients = torch.autograd.grad(loss.sum(), parameters)
        with torch.no_grad():
            for p, g, m in zip(parameters, gradients, momentum, strict=True):
                m.mul_(MOMENTUM).add_(g)
                p.sub_(m * lr.view(-1, *[1] * (p.dim() - 1)))
    last = history[-300:]
    near = last[:, TARGET_TIME - 1 : TARGET_TIME + 2].any(1).float().mean(0)
    count = last.sum(1).float()
    rows = []
    for i, config in enumerate(configs):
        mine = slice(i * args.seeds, (i + 1) * args.seeds)
        rows.append(
            config
            | {
                "near": round(near[mine].mean().item(), 4),
                "exact": round(last[:, TARGET_TIME, mine].float().mean().item(), 4),
                "active": round((count[:, mine] > 0).float().mean().item(), 4),
                "spikes": round(count[:, mine].mean().item(), 2),
                "dead": round(dead[-300:, mine].mean().item(), 4),
                "loss_per_step": round((loss[mine].median() / STEPS).item(), 4),
                "loss_over_silence": round((loss[mine].median() / (target[:, mine.start] ** 2).sum()).item(), 4),
            }
        )
    rows.sort(key=lambda row: -row["near"])
    report = {
        "command": shlex.join(["python", *sys.argv]),
        "seeds": list(range(args.seeds)),
        "versions": {"bitspike": bitspike.__version__, "torch": torch.__version__},
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "seconds": round(time.time() - began, 1),
    }
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n')
    print(f"{len(configs)} configurations x {args.seeds} seeds in {report['seconds']} s -> {args.out}")


if __name__ == "__main__":
    main()
