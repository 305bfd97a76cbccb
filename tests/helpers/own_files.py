"""Files of images as a user has them, and a small experiment on whatever files its `[data]` table names."""

import numpy as np

from bitspike.data.datasets import open_dataset
from bitspike.experiments.schema import read_experiment

NET = """
[net]
notation = "16-8-3"
beta = 0.9
slope = 1.0
theta = 2.0
steps = 5
[train]
epochs = 1
batch = 8
lr = 1e-2
tensorboard = false
"""


def images(labels, *, side=4, **more):
    """Arrays of a file with random images; `labels` are theirs, or how many there are, of three classes in turn."""
    labels = np.arange(labels) % 3 if isinstance(labels, int) else np.array(labels)
    rng = np.random.default_rng(len(labels))
    return {"images": rng.integers(0, 256, (len(labels), side, side), dtype=np.uint8), "labels": labels, **more}


def write_toml(folder, data):
    """Write the experiment with the lines `data` in its table of that name."""
    (folder / "mine.toml").write_text(f"[data]\n{data}\n{NET}")
    return folder / "mine.toml"


def spec_of(folder, data):
    return read_experiment(write_toml(folder, data))


def opened(folder, data):
    return open_dataset(spec_of(folder, data).data)
