"""What training did to a run's latent weights: how large they became, how many signs changed, batch norm's factors.

    python benchmarks/latent_weights.py runs/static/paper/fashion/annealed/trial-0 runs/fashion-fixed

A sign flips only if the gradient moves its latent weight across zero: where weights are large against their updates,
the layer has stopped learning.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import bitspike
from bitspike.experiments.assembly import build_network
from bitspike.experiments.schema import read_experiment


def describe(run: Path) -> str:
    """Return a row for each layer: median |w| before and after, the largest, changed signs, mean batch norm factor."""
    trained = bitspike.load_run(run)
    before = build_network(read_experiment(run / "experiment.toml"), trained.input_shape)
    name = run.parent.name if run.name.startswith("trial-") else run.name
    rows = []
    for i, (old, new) in enumerate(zip(before.layers, trained.layers, strict=True)):
        a, b = old.synapse.weight.detach(), new.synapse.weight.detach()
        flipped = ((a >= 0) != (b >= 0)).double().mean().item()
        factor = "" if new.norm is None else f"{new.norm.weight.abs().mean().item():.2f}"
        sizes = f"{a.abs().median():.3f} | {b.abs().median():.3g} | {b.abs().max():.3g}"
        rows.append(f"| {name} | {i + 1} | {sizes} | {flipped:.0%} | {factor} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run folders")
    print("| run | layer | median of abs(w) at the start | after | largest | signs changed | batch norm's factor |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for run in parser.parse_args().runs:
        try:
            print(describe(run), flush=True)
        except (OSError, ValueError) as error:
            sys.exit(f"latent_weights: {error}")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
