"""Whole training steps against snnTorch, SpikingJelly, Norse and Spyx: `bitspike bench` on all cases, into a folder.

    python benchmarks/train_step.py [CASE...] [--against all] [--seconds 20] [--out results/train-step]

Takes the peers that are installed (docs/reports/speed.md says how) and, without names, every case that suits the
device, growth included. Writes bench.json (after each case), bench.png and growth.png, and prints the tables.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

import torch
from rich.console import Console

from bitspike.bench.cases import GROWTH, ON_CPU, ON_GPU, select_cases
from bitspike.bench.measure import Plan, run
from bitspike.bench.peers import absent, named
from bitspike.bench.picture import draw
from bitspike.bench.show import show
from bitspike.files import write_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*")
    parser.add_argument("--against", default="all")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=Path("results/train-step"))
    args = parser.parse_args()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    cases = args.case or ([*ON_GPU, GROWTH] if gpu else list(ON_CPU))

    def save(result: dict) -> None:
        write_text(args.out / "bench.json", json.dumps(result, indent=1) + "\n")

    command = shlex.join(["python", *sys.argv])
    chosen, left_out = select_cases(cases, device.type), absent(args.against)
    result = run(Plan(chosen, named(args.against), device, args.seconds, command, not_installed=left_out, done=save))
    for path in draw(result, args.out):
        print(path)
    show(result, Console())


if __name__ == "__main__":
    main()
