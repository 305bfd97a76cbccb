"""A data set that nobody knew before: one entry, made here, and all of bitspike knows it."""

import json

import numpy as np
import pytest
import torch

from bitspike.data import load
from bitspike.data.catalog import CATALOG
from bitspike.data.entry import Edition, Entry, EventSource, ImageSource, SeedSource
from bitspike.data.event_files import read_event_file, read_image_file
from bitspike.data.known_files import files_without_mirror
from bitspike.data.samples import Dataset, frames_from_dense
from bitspike.files import digest
from helpers.files import event_arrays, write_npz

EXPERIMENT = """
name = "toy"
data = {{ name = "toy" }}
[net]
notation = "{notation}"
theta = [1.0]
beta = 0.9
slope = 1.0
[train]
lr = 1e-3
epochs = 1
batch = 2
tensorboard = false
"""


def entry(source, files=(), **more):
    """An entry whose files lie in the folder of the user's work."""
    known = files_without_mirror(*((file.name, file.stat().st_size, digest(file)) for file in files))
    editions = (Edition("drawn for a test", known),) if files else ()
    return Entry("toy", "Toy set", "what", "MIT", "", "", source=source, editions=editions, **more)


def images(folder):
    files = []
    for part, count in (("train", 12), ("test", 6)):
        values = np.random.default_rng(count).integers(0, 255, (count, 4, 4), dtype=np.uint8)
        files.append(write_npz(folder / f"toy_{part}.npz", images=values, labels=np.arange(count) % 2))

    def read(found):
        train, test = (read_image_file(path) for path in found.train_and_test())
        return train, test

    return entry(ImageSource(read), files, classes=2)


def events(folder):
    files = [write_npz(folder / f"toy_{part}.npz", **event_arrays()) for part in ("train", "test")]

    def read(found, progress):
        train, test = (read_event_file(path, sensor=(8, 8)) for path in found.train_and_test())
        return train, test

    return entry(EventSource(read, bin_ms=1.0, steps=20, test_steps=10, downsample=2), files, classes=3)


def drawn(folder):
    def draw(seed):
        spikes = torch.rand(4, 20, 16, generator=torch.Generator().manual_seed(seed)) < 0.3
        samples = frames_from_dense(spikes, torch.arange(4) % 2)
        return Dataset("toy", "Toy set", 2, samples, samples)

    return entry(SeedSource(draw), classes=2)


@pytest.fixture
def folder(workplace):
    """Where the data set lies: in the data root."""
    (workplace.parent / "root" / "toy").mkdir(parents=True)
    return workplace.parent / "root" / "toy"


@pytest.fixture(params=[images, events, drawn])
def toy(request, folder, monkeypatch):
    made = request.param(folder)
    monkeypatch.setitem(CATALOG, "toy", made)
    return made


def test_it_is_listed_read_and_trained_on(toy, cli, workplace):
    status, out, _ = cli("data", "list", "--json")
    (line,) = (line for line in json.loads(out) if line["name"] == "toy")
    assert (status, line["state"]) == (0, "built in" if toy.drawn_from_seed else "ready")
    data = load("toy")
    assert (data.name, data.classes) == ("toy", toy.classes)
    inputs = torch.Size(data.shape).numel()
    text = EXPERIMENT.format(notation=f"{inputs}-{toy.classes}")
    (workplace / "toy.toml").write_text(text)
    status, out, err = cli("train", "toy.toml", "--out", "run", "--device", "cpu", "--json")
    assert status == 0, err
    assert json.loads(out)["data"] == "Toy set"


def test_the_entry_says_how_events_become_frames_and_an_option_says_otherwise(folder, monkeypatch):
    monkeypatch.setitem(CATALOG, "toy", events(folder))
    data = load("toy")
    assert (data.train.steps, data.test.steps, data.shape) == (20, 10, (2, 4, 4))
    data = load("toy", steps=5, downsample=1)
    assert (data.train.steps, data.test.steps, data.shape) == (5, 5, (2, 8, 8))
