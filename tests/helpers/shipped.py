"""Runs that are trained in a moment, one for each kind of input, and the files that their networks are asked about."""

import numpy as np

from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment
from helpers.files import event_arrays, write_npz
from helpers.own_files import images

TRAIN = "[train]\nepochs = 1\nbatch = 8\nlr = 1e-2\ntensorboard = false\nlogit_scale = 4.0\nloss = 'cross_entropy'\n"
NET = "beta = 0.9\nslope = 1.0\ntheta = 1.0\n"
EVENTS = "bin_ms = 2.0\nsteps = 5\nsensor = [9, 8]\ndownsample = 2\nclip = 2\nduration_ms = 9"


def train(folder, name, data, notation, more=""):
    """Train a network on the files that the lines `data` name; return the run's folder."""
    (folder / f"{name}.toml").write_text(f"[data]\n{data}\n[net]\nnotation = '{notation}'\n{NET}{more}{TRAIN}")
    train_run(read_experiment(folder / f"{name}.toml"), folder / name, RunOptions())
    return folder / name


def image_run(folder, more=""):
    """A run on images of 8 x 8 in three classes, which have the labels 3, 5 and 7 and names."""
    labels = np.arange(30) % 3 * 2 + 3
    write_npz(folder / "images.npz", **images(labels.tolist(), side=8))
    data = 'file = "images.npz"\nclass_names = ["no", "maybe", "yes"]'
    return train(folder, "on-images", data, "4Conv3-AP2-36Dense3", f"steps = 5\n{more}")


def event_run(folder, data=EVENTS, notation="2Conv3-8Dense3"):
    """A run on events of a camera with 9 x 8 pixels and two polarities, downsampled by 2."""
    write_npz(folder / "events.npz", **event_arrays(30, side=8, seed=1, unit="t"))
    write_npz(folder / "test.npz", **event_arrays(9, side=8, seed=2, unit="t"))
    lines = f'file = "events.npz"\ntest_file = "test.npz"\ntime_unit = "ms"\n{data}'
    return train(folder, "on-events", lines, notation)


def spike_run(folder):
    """A run on spikes in time steps."""
    drawn = np.random.default_rng(0)
    write_npz(folder / "spikes.npz", spikes=drawn.integers(0, 3, (20, 6, 10)), labels=np.arange(20) % 2)
    return train(folder, "on-spikes", 'file = "spikes.npz"', "10-6-2")
