"""Experiments on spikes of 700 units that are trained in a moment, for `bitspike predict`."""

import numpy as np

from bitspike.data.events import Events
from bitspike.data.speech.spike_files import write_spikes

TOML = """
title = "Words"
[data]
{data}
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
protocol = "paper"
batch = 8
lr = 2e-2
loss = "cross_entropy"
tensorboard = false
"""


def words(classes):
    """Ten samples of each class, with spikes in units of its own."""
    rng = np.random.default_rng(0)
    labels = np.arange(10 * classes) % classes
    t = np.concatenate([np.sort(rng.integers(0, 300_000, 80)) for _ in labels])
    x = np.concatenate([rng.integers(0, 700 // classes, 80) + 700 // classes * label for label in labels])
    return Events(t, x.astype(np.uint16), None, None, np.arange(0, 80 * len(labels) + 1, 80), labels, (700,))


def write_words(folder):
    """Write an experiment on a file of one's own, with two classes."""
    write_spikes(folder / "words.npz", words(2))
    (folder / "words.toml").write_text(TOML.format(data='file = "words.npz"\nsensor = [700]', classes=2))
    return folder / "words.toml"


def write_shd(folder, root):
    """Write an experiment on SHD, and files of its layout into the data folder."""
    for part in ("train", "test"):
        write_spikes(root / "shd" / f"shd_{part}.h5", words(20))
    (folder / "digits.toml").write_text(TOML.format(data='name = "shd"', classes=20))
    return folder / "digits.toml"
