"""Time of `lif` forward and backward on the CPU against snnTorch's loop, alternating in one process.

    python benchmarks/lif_cpu.py [--steps 100 --batch 128 --neurons 1000] [--json FILE]

Both compute the same spikes (checked) from the same current, and the same gradient, from a given gradient of the
spikes. snnTorch's loop is written twice: over `current.unbind()`, its fastest form, and over `current[t]`, as most
people write it (its gradient costs a whole [T, B, N] tensor a step when the current itself needs one).
The floor counts bytes: current in, spikes (and membrane) out, then current and gradient in, gradient out.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import statistics
import sys
import time
from pathlib import Path

import snntorch
import torch

import bitspike
from bitspike import lif

BETA, THETA, SLOPE = 0.9, 1.0, 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--neurons", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    shape = (args.steps, args.batch, args.neurons)
    g = torch.Generator().manual_seed(0)
    current = torch.randn(shape, generator=g).requires_grad_()
    gradient = torch.randn(shape, generator=g)
    leaky = snntorch.Leaky(beta=BETA, threshold=THETA, spike_grad=snntorch.surrogate.fast_sigmoid(slope=SLOPE))

    def snntorch_loop(steps, keep_membrane):
        membrane = leaky.reset_mem()
        spikes, membranes = [], []
        for step in steps:
            spike, membrane = leaky(step, membrane)
            spikes.append(spike)
            membranes.append(membrane)
        if keep_membrane:
            torch.stack(membranes)
        return torch.stack(spikes)

    def ours(backend, keep_membrane):
        return lif(current, beta=BETA, theta=THETA, slope=SLOPE, backend=backend, keep_membrane=keep_membrane).spikes

    runs = {
        "snnTorch, unbind": lambda: snntorch_loop(current.unbind(), True),
        "snnTorch, unbind, membrane not stacked": lambda: snntorch_loop(current.unbind(), False),
        "snnTorch, current[t]": lambda: snntorch_loop((current[t] for t in range(args.steps)), True),
        "bitspike c": lambda: ours("c", True),
        "bitspike c, keep_membrane=False": lambda: ours("c", False),
        "bitspike torch": lambda: ours("torch", True),
        "bitspike reference": lambda: ours("reference", True),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    kept = {}
    for round_ in range(args.rounds + 1):
        for name, run in runs.items():
            if name.endswith("current[t]") and round_ > 2:
                continue  # tens of times slower: two rounds say enough
            current.grad = None
            began = time.perf_counter()
            spikes = run()
            spikes.backward(gradient)
            if round_:  # the first warms up
                times[name].append(1e3 * (time.perf_counter() - began))
            elif name in ("snnTorch, unbind", "bitspike c"):
                kept[name] = spikes.detach(), current.grad.clone()
            del spikes
    (peer, peer_grad), (mine, my_grad) = kept.values()
    if not torch.equal(peer, mine):
        raise RuntimeError("spikes differ")
    error = ((peer_grad - my_grad).abs().max() / peer_grad.abs().max()).item()

    base = statistics.median(times["snnTorch, unbind"])
    report = {
        "command": shlex.join(["python", *sys.argv]),
        "shape": shape,
        "versions": {
            "bitspike": bitspike.__version__,
            "snntorch": snntorch.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "threads": torch.get_num_threads(),
        "gradient_error_relative": error,
        "floor_bytes": 4 * mine.numel() * 6,
        "milliseconds": {
            name: {
                "median": round(statistics.median(v), 2),
                "min": round(min(v), 2),
                "max": round(max(v), 2),
                "snntorch_unbind_over_this": round(base / statistics.median(v), 2),
            }
            for name, v in times.items()
        },
    }
    print(f"[T, B, N] = {list(shape)}, {report['threads']} threads, {report['versions']}")
    print(f"spikes equal bit for bit; gradients differ by {error:.1e} of the largest")
    for name, row in report["milliseconds"].items():
        print(
            f"{name:42s} {row['median']:9.1f} ms  ({row['min']:.1f} to {row['max']:.1f})"
            f"  {row['snntorch_unbind_over_this']:6.2f} x"
        )
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
