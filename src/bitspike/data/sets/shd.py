"""The Spiking Heidelberg Digits: spoken digits as spikes of a cochlea model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bitspike.data.entry import UNKNOWN, Edition, Entry, EventSource, Found
from bitspike.data.known_files import File, Form, files_without_mirror
from bitspike.data.progress import Progress
from bitspike.data.speech.spike_files import DIGITS, UNITS

if TYPE_CHECKING:
    from bitspike.data.events import Events


def _read(found: Found, progress: Progress) -> tuple[Events, Events]:
    from bitspike.data.shd import read_shd, read_shd_compact

    train, test = found.train_and_test()
    read = read_shd_compact if train.suffix == ".xz" else read_shd
    return read(train), read(test)


def _read_all(files: Mapping[str, Path]) -> object:
    from bitspike.data.shd import read_shd

    return [len(read_shd(path)) for path in files.values()]


def _file(part: str, gz: str, zipped: str, plain: str) -> File:
    # The sums of .gz and .zip are those that loaders of several projects check; of the plain file, norse's.
    hosts = ("https://zenkelab.org/datasets/", "https://compneuro.net/datasets/")
    packed = (
        Form(f"shd_{part}.h5{end}", ("md5", md5), None, tuple(f"{host}shd_{part}.h5{end}" for host in hosts))
        for end, md5 in ((".gz", gz), (".zip", zipped))
    )
    return File((*packed, Form(f"shd_{part}.h5", ("md5", plain))))


_PUBLISHED = (
    _file(
        "train",
        gz="d47c9825dee33347913e8ce0f2be08b0",
        zipped="f3252aeb598ac776c1b526422d90eecb",
        plain="8e9877c85f29a28dd353ea6a54402667",
    ),
    _file(
        "test",
        gz="3062a80ec0c5719404d5b02e166543b1",
        zipped="1503a5064faa34311c398fb0a1ed0a6f",
        plain="207ad1295a0ab611e22d1734989c254e",
    ),
)
_REGENERATED = files_without_mirror(
    ("shd_train.npz.xz", 41956192, "41fef045b42f220aabb5bdc692bac2f2d4c91f48eda618f292c852066801065e"),
    ("shd_test.npz.xz", 12170208, "6b31e0f5aa3f210c6704904d89727db45ce22fe109916cc89bdb2d6e73c69d4e"),
)

SHD = Entry(
    name="shd",
    title="Spiking Heidelberg Digits",
    what="8,156 + 2,264 spoken digits as spikes of 700 units, 20 classes",
    licence="CC BY 4.0",
    homepage="https://zenkelab.org/resources/spiking-heidelberg-datasets-shd/",
    citation="Cramer, Stradmann, Schemmel, Zenke: The Heidelberg Spiking Data Sets, doi:10.1109/TNNLS.2020.3044364",
    classes=20,
    group_names="speakers",
    source=EventSource(_read, bin_ms=3.0, steps=333, sensor=(UNITS,), origin="zero"),  # the paper's binary networks
    class_names=DIGITS,
    folders=("shd", "SHD", "hdspikes", "."),
    editions=(
        Edition("published", _PUBLISHED),
        Edition(UNKNOWN, tuple(File((Form(f"shd_{part}.h5"),)) for part in ("train", "test")), read=_read_all),
        Edition("regenerated", _REGENERATED, title="SHD regenerated"),
    ),
)
