"""Ordinary convolutional networks as teachers: what they say of every training image, for `train.teacher`.

    python benchmarks/cnn_teacher.py fashion --networks 3 --out teacher-fashion.npz
    bitspike train fashion/best --set train.teacher=teacher-fashion.npz

They are trained on the images that train under the protocol `holdout`: no validation image teaches them, and the test
set is not used. Images are moved by up to two pixels (and, of FashionMNIST, mirrored) while they train; their word is
the mean over moves by one pixel, and over networks. Each has four times the student's weights, real ones, and no
spikes; the student gets none of that, only which classes an image could be taken for.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitspike.data.datasets import open_dataset
from bitspike.data.splits import held_out
from bitspike.experiments.presets import preset
from bitspike.experiments.provenance import versions
from bitspike.experiments.schema import with_values
from bitspike.files import write_atomically


def network() -> nn.Module:
    """Five 3x3 convolutions, 140,000 weights."""

    def conv(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

    layers = (conv(1, 32), conv(32, 32), nn.MaxPool2d(2), conv(32, 64), conv(64, 64), nn.MaxPool2d(2), conv(64, 128))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, 10))
    return nn.Sequential(*layers, *head).to(memory_format=torch.channels_last)


def moved(images: Tensor, reach: int, mirror: bool, generator: torch.Generator) -> Tensor:
    """Each image moved by up to `reach` pixels each way, and mirrored half of the time."""
    count, size = len(images), images.shape[-1]
    padded = F.pad(images, [reach] * 4)
    offsets = torch.randint(0, 2 * reach + 1, (2, count, 1), generator=generator)
    rows, columns = (offset + torch.arange(size) for offset in offsets)
    if mirror:
        columns = torch.where(torch.rand(count, 1, generator=generator) < 0.5, columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], 0, rows[:, :, None], columns[:, None, :]][:, None]


def scores(net: nn.Module, images: Tensor, bf16: bool) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        return net(images.contiguous(memory_format=torch.channels_last)).float()


def train(net: nn.Module, images: Tensor, labels: Tensor, *, epochs: int, mirror: bool, seed: int, bf16: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.02)
    steps = -(-len(labels) // 128) * epochs
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps, pct_start=0.2)
    for epoch in range(epochs):
        began, total = time.perf_counter(), 0.0
        for rows in torch.randperm(len(labels), generator=generator).split(128):
            x = moved(images[rows].float() / 255, 2, mirror, generator)
            loss = F.cross_entropy(scores(net, x, bf16), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch + 1:3d}  loss {total / len(labels):.4f}  {time.perf_counter() - began:.0f} s", flush=True)


@torch.no_grad()
def probabilities(net: nn.Module, images: Tensor, mirror: bool, bf16: bool) -> Tensor:
    """The mean over 9 moves by -1, 0, 1 pixels, and mirrored ones."""
    net.eval()
    parts = []
    for part in images.split(1000):
        x = F.pad(part.float() / 255, [1] * 4)
        views = [x[:, :, dy : dy + 28, dx : dx + 28] for dy in range(3) for dx in range(3)]
        views += [view.flip(3) for view in views] if mirror else []
        parts.append(torch.stack([scores(net, view, bf16).softmax(1) for view in views]).mean(0))
    return torch.cat(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("mnist", "fashion"))
    parser.add_argument("--out", type=Path, required=True, help="npz file to write")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--networks", type=int, default=1, help="with seeds 0, 1, ...; the mean of their probabilities")
    parser.add_argument("--limit", type=int, help="only so many images, as data.train_limit draws them: a try")
    parser.add_argument("--validation-share", type=float, default=0.1, help="as the student's data.validation_share")
    parser.add_argument("--bf16", action="store_true", help="twice as fast where the CPU has bfloat16")
    given = parser.parse_args()
    if min(given.epochs, given.networks) < 1:
        parser.error("--epochs and --networks must be 1 or more")
    if given.limit is not None and given.limit < 2000:
        parser.error("--limit must be 2000 or more: the learning rate needs iterations to rise and fall in")
    settings = [f"data.validation_share={given.validation_share}", f"data.train_limit={given.limit or 'none'}"]
    try:
        spec = with_values(preset(f"{given.task}/best"), settings)
    except ValueError as error:
        parser.error(str(error))
    if spec.data.validation_share == 0:
        parser.error("--validation-share must be more than 0: these images say how good the networks are")
    data = open_dataset(spec.data)
    images, labels = data.train.values, data.train.labels
    kept, held = held_out(labels, spec.data.validation_share, spec.data.split_seed)
    mirror, tables = given.task == "fashion", []
    for seed in range(given.networks):
        torch.manual_seed(seed)
        net = network()
        train(net, images[kept], labels[kept], epochs=given.epochs, mirror=mirror, seed=seed, bf16=given.bf16)
        tables.append(probabilities(net, images, mirror, given.bf16))
        print(f"network {seed}: {(tables[-1].argmax(1) == labels)[held].double().mean():.2%} of validation images")
    table = torch.stack(tables).mean(0)
    right = table.argmax(1) == labels
    made = {
        "command": shlex.join(["python", "benchmarks/cnn_teacher.py", *sys.argv[1:]]),
        "versions": versions(),
        "train_accuracy": right[kept].double().mean().item(),
        "valid_accuracy": right[held].double().mean().item(),
    }
    print(json.dumps(made, indent=1))
    arrays = {
        "probabilities": table.numpy(),
        "labels": labels.numpy().astype(np.uint8),
        "made": np.array(json.dumps(made)),
    }

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)

    write_atomically(given.out, write)


if __name__ == "__main__":
    main()
