"""An experiment on a few images of three classes, written to files as a user would, and what its run leaves behind."""

import json
from pathlib import Path

import numpy as np

from helpers.files import write_npz

TOML = """
title = "Three rows"
[data]
file = "train.npz"
test_file = "test.npz"
[net]
notation = "16-12-3"
beta = 0.9
slope = 1.0
theta = { start = 2.0, stop = 4.0, rate = 0.1 }
steps = 6
[train]
epochs = 3
batch = 8
lr = 2e-2
half_period = 100
"""
TRAIN, VALID, TEST = 36, 6, 15  # samples: all differ, so that a part is known by its size


def write_images(path, samples, seed):
    """Bright rows that say the class, on noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(samples) % 3
    images = rng.integers(0, 90, (samples, 4, 4))
    images[np.arange(samples), labels] += 120
    write_npz(path, images=images.astype(np.uint8), labels=labels)


def write_experiment(folder):
    write_images(folder / "train.npz", TRAIN + VALID, 0)
    write_images(folder / "test.npz", TEST, 1)
    (folder / "mine.toml").write_text(TOML.replace("[net]", "validation_share = 0.14\n[net]"))
    return folder / "mine.toml"


def settings(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


NO_BOARD = settings("train.tensorboard=false")


def metrics(run):
    return [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]


def summary_of(run):
    return json.loads((Path(run) / "summary.json").read_text())
