"""What batch norm's statistics are worth at test time: the running averages, measured again, or each step's own.

    python benchmarks/norm_at_test.py runs/static/paper/mnist/annealed/trial-2 --images 2048

Of the weights of a run's last epoch, on its first test images. A network trained with statistics of each time step is
judged with one running average for all of them; each step's own need a batch, so they are no way to deploy it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import build_network
from bitspike.experiments.schema import read_experiment
from bitspike.nn import SpikingNetwork
from bitspike.train.checkpoint import load_checkpoint
from bitspike.train.tricks.recalibrate import recalibrate

BATCH = 128


def accuracy(net: SpikingNetwork, images: Tensor, labels: Tensor) -> float:
    """Return the accuracy in percent, in batches as in training."""
    predicted = [net.scores(part).argmax(1) for part in images.split(BATCH)]
    return 100 * (torch.cat(predicted) == labels).double().mean().item()


def describe(run: Path, images: int) -> str:
    """Return a row: the accuracy with training's averages, with those of 5120 samples, and with each step's own.

    The row also says how far these statistics differ.
    """
    spec = read_experiment(run / "experiment.toml")
    data = open_dataset(spec.data, seed=spec.seed)
    net = build_network(spec, data.shape)
    net.load_state_dict(load_checkpoint(run / "last.ckpt")["net"])
    x, labels = data.test.batch(torch.arange(min(images, len(data.test))))
    found = [accuracy(net.eval(), x, labels)]
    recalibrate(net, data.train, 5120, seed=spec.seed)
    found.append(accuracy(net, x, labels))
    norms = [layer.norm for layer in net.layers if layer.norm is not None]
    for norm in norms:
        norm.train()
    found.append(accuracy(net, x, labels))
    spreads = ", ".join(f"{value:.2f}" for value in spread(net, norms[-1], x[:BATCH])) if norms else ""
    return f"| {'/'.join(run.parts[-3:])} | {' | '.join(f'{value:.1f}' for value in found)} | {spreads} |"


def spread(net: SpikingNetwork, norm: nn.Module, images: Tensor) -> list[float]:
    """Return the standard deviation that enters `norm`, a median over channels, at the first, middle and last step."""
    entered: list[Tensor] = []
    hook = norm.register_forward_pre_hook(lambda module, inputs: entered.append(inputs[0]))
    net(images)
    hook.remove()
    deviation = entered[0].var((1, 3, 4)).sqrt().median(1).values  # [T]
    return [deviation[t].item() for t in (0, len(deviation) // 2, -1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run folders with last.ckpt")
    parser.add_argument("--images", type=int, default=2048)
    chosen = parser.parse_args()
    print(
        "| run, last epoch | running averages | measured again | each step's own | spread at first, middle, last step |"
    )
    print("|---|--:|--:|--:|---|")
    for run in chosen.runs:
        try:
            print(describe(run, chosen.images), flush=True)
        except (OSError, ValueError) as error:
            sys.exit(f"norm_at_test: {error}")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
