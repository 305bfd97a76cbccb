"""Two small sets of events in npz files, made for trying things out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from bitspike.data.entry import Edition, Entry, EventSource, Found
from bitspike.data.known_files import files_without_mirror
from bitspike.data.progress import Progress

if TYPE_CHECKING:
    from bitspike.data.events import Events


def _read(
    found: Found, progress: Progress, *, time_unit: Literal["s", "us"], sensor: tuple[int, int]
) -> tuple[Events, Events]:
    from bitspike.data.event_files import read_event_file

    train, test = (read_event_file(path, time_unit=time_unit, sensor=sensor) for path in found.train_and_test())
    return train, test


_NMNIST_FILES = files_without_mirror(
    ("nmnist_slayer_train.npz", 13303124, "3e28e0dc1ed123914a4146d299f80fb31e9cbd150a1b51e4b71f9fae53fa05a2"),
    ("nmnist_slayer_test.npz", 1249025, "b712cfaa65c1a2fb7b0546c4be0aac144e693b44c9854dcbc9f08e7f9e66e7f3"),
)
_DVS_SIGN_FILES = files_without_mirror(
    ("dvs_sign_train.npz", 32267351, "dd30cf079b5b67aa74fb920330123943942b0c775af5737a0381d1bcbb6c5a58"),
    ("dvs_sign_test.npz", 7309771, "20062b580b1360f3f99cbd11a4df3fe4d51e568329ca3ee1adc8e69e557c570b"),
)

NMNIST = Entry(
    name="nmnist-small",
    title="N-MNIST, small",
    what="1,000 + 100 digits before an event camera, 2x34x34, 10 classes",
    licence="CC BY-SA 4.0",
    homepage="https://www.garrickorchard.com/datasets/n-mnist",
    citation="Orchard et al.: Converting static image datasets to spiking neuromorphic datasets, 2015",
    classes=10,
    class_names=tuple("0123456789"),
    source=EventSource(
        partial(_read, time_unit="us", sensor=(34, 34)), bin_ms=3.0, steps=100, sensor=(34, 34), time_unit="us"
    ),
    folders=("nmnist-small", "."),
    editions=(Edition("first 1,000 + 100 samples", _NMNIST_FILES),),
)
DVS_SIGN = Entry(
    name="dvs-sign",
    title="DVS sign gestures",
    what="600 + 150 hand signs, events simulated from 30 Hz video, 2x128x128, 15 classes",
    licence="not stated",
    homepage="",
    citation="",
    classes=15,
    source=EventSource(
        partial(_read, time_unit="s", sensor=(128, 128)),
        bin_ms=1000 / 30,  # a bin holds a frame of the video
        steps=100,
        downsample=4,
        sensor=(128, 128),
        time_unit="s",
    ),
    folders=("dvs-sign", "."),
    editions=(Edition("simulated from video", _DVS_SIGN_FILES),),
)
