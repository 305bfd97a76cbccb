"""How threads should wait for each other on a CPU: training steps on an idle machine and beside a busy process.

    python benchmarks/cpu_waiting.py [--rounds 3] [--busy 1] [--out results/cpu-waiting.json]

A thread that is done with its part spins until the others are. On a machine that is shared, the thread it waits for
may get no turn meanwhile. Each column is a way to wait, set in the environment of a process of its own; processes take
turns. `bitspike train` waits by default on an idle machine and passively on a busy one (`bitspike.cli.process`), and
gives small networks one thread, those of fewer than `bitspike.train.numerics.SMALL` neuron-steps an iteration (the last
column).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

WAYS = {
    "default": {},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
STATIC = "16Conv5-AP2-64Conv5-AP2-1024Dense10"
# notation, input shape, steps, batch
CASES = {
    "coding": ("100-1000-1", (100,), 100, 1),
    "dense, small": ("128Dense256Dense10", (128,), 50, 32),
    "dense, middle": ("128Dense256Dense256Dense10", (128,), 100, 32),
    "dense, large": ("256Dense512Dense10", (256,), 100, 64),
    "images, T = 1": (STATIC, (1, 28, 28), 1, 64),
    "images, T = 4": (STATIC, (1, 28, 28), 4, 64),
    "images, T = 8": (STATIC, (1, 28, 28), 8, 128),
    "fashion": (STATIC, (1, 28, 28), 100, 128),
    "shd": ("700Dense3000Dense20", (700,), 333, 32),
}


def measure(seconds: float) -> dict[str, float]:
    """Return the median time of a training step of every case, in ms."""
    import torch

    import bitspike

    found = {}
    for name, (notation, shape, steps, batch) in CASES.items():
        torch.manual_seed(0)
        static = len(shape) == 3
        net = bitspike.build(notation, shape, theta=5.0, norm="step" if static else None, steps=steps)
        x = torch.rand(batch, *shape) if static else (torch.rand(steps, batch, *shape) < 0.05).float()
        labels = torch.randint(1 if notation.endswith("-1") else 10, (batch,))
        optimizer = torch.optim.Adam(net.parameters())
        times, end = [], time.perf_counter() + seconds
        while len(times) < 5 or time.perf_counter() < end:
            began = time.perf_counter()
            loss = bitspike.count_loss(net(x).spikes, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(time.perf_counter() - began)
        found[name] = 1000 * statistics.median(times[2:])
    return found


def in_a_process(way: str, seconds: float, busy: int) -> dict[str, float]:
    """Run `measure` in a process whose threads wait in that way, beside so many busy processes."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    left_out = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
    environment = {key: value for key, value in os.environ.items() if key not in left_out} | WAYS[way]
    try:
        command = [sys.executable, __file__, "--measure", str(seconds)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=1, help="busy processes of the second table")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case")
    parser.add_argument("--measure", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return
    result: dict = {"command": shlex.join(["python", *sys.argv]), "cores": os.cpu_count(), "rows": {}}
    for busy in (0, args.busy):
        rounds = [{way: in_a_process(way, args.seconds, busy) for way in WAYS} for _ in range(args.rounds)]
        print(f"beside {busy} busy processes, median ms a step" if busy else "idle, median ms a step")
        print(f"{'':<16}" + "".join(f"{way:>12}" for way in WAYS) + f"{'neuron-steps':>16}")
        for name, (notation, shape, steps, batch) in CASES.items():
            row = {way: statistics.median(each[way][name] for each in rounds) for way in WAYS}
            result["rows"].setdefault(name, {})[f"busy {busy}"] = row
            work = neuron_steps(notation, shape, steps, batch)
            print(f"{name:<16}" + "".join(f"{ms:12.1f}" for ms in row.values()) + f"{work:16,}")
    if args.out:
        from bitspike.experiments.provenance import versions
        from bitspike.files import write_text

        write_text(args.out, json.dumps(result | {"versions": versions()}, indent=1) + "\n")


def neuron_steps(notation: str, shape: tuple[int, ...], steps: int, batch: int) -> int:
    """Count the neuron-steps of an iteration, as the trainer does."""
    from bitspike.nn.notation import count_neurons, parse

    return steps * batch * count_neurons(parse(notation, shape)[0])


if __name__ == "__main__":
    main()
