"""A run on spikes of 700 units, trained for a moment, as `bitspike predict` takes it."""

import numpy as np

from helpers.files import write_npz

TOML = """
title = "Two words"
[data]
file = "words.npz"
sensor = [700]
bin_ms = 10.0
steps = 30
downsample = 20
[net]
notation = "35-8-{classes}"
beta = 0.9
slope = 1.0
theta = 1.0
[train]
epochs = 1
batch = 8
lr = 2e-2
loss = "cross_entropy"
tensorboard = false
"""


def write_words(folder, classes=2):
    """Write an experiment: each class has spikes in units of its own."""
    rng = np.random.default_rng(0)
    labels = np.arange(10 * classes) % classes
    t = np.concatenate([np.sort(rng.integers(0, 300_000, 80)) for _ in labels])
    x = np.concatenate([(rng.integers(0, 700 // classes, 80) + 700 // classes * label) for label in labels])
    offsets = np.arange(0, 80 * len(labels) + 1, 80)
    write_npz(folder / "words.npz", t_us=t, x=x, offsets=offsets, labels=labels)
    (folder / "words.toml").write_text(TOML.format(classes=classes))
    return folder / "words.toml"
