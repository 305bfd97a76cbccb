"""DVS128 Gesture: hand gestures before an event camera."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bitspike.data.entry import UNKNOWN, Edition, Entry, EventSource, Found
from bitspike.data.known_files import File, Form
from bitspike.data.progress import Progress

if TYPE_CHECKING:
    from bitspike.data.events import Events


def _read(found: Found, progress: Progress) -> tuple[Events, Events]:
    from bitspike.data.dvs_gesture import read_dvs_gesture

    return read_dvs_gesture(found.folder, progress)


def _read_all(files: Mapping[str, Path]) -> object:
    from bitspike.data.dvs_gesture import read_dvs_gesture

    first = next(iter(files.values()))
    return read_dvs_gesture(first if len(files) == 1 else first.parent)


def _gesture(part: str, md5: str, figshare: int) -> File:
    name = f"ibmGesture{part}.tar.gz"
    urls = (
        f"https://zenodo.org/records/8060604/files/{name}?download=1",
        f"https://figshare.com/ndownloader/files/{figshare}",
        f"https://api.figshare.com/v2/file/download/{figshare}",
    )
    return File((Form(name, ("md5", md5), None, urls),))


_ARCHIVE = File(
    (
        Form(
            "DvsGesture.tar.gz",
            ("md5", "8a5c71fb11e24e5ca5b11866ca6c00a1"),
            urls=("https://www.dropbox.com/s/cct5kyilhtsliup/DvsGesture.tar.gz?dl=1",),
        ),
    )
)
_OTHER_ARCHIVE = File((Form("DvsGesture.tar.gz"),))  # packed again; its reader finds damage by gzip's checksum
_FOLDER = File((Form("DvsGesture", members=("*.aedat", "*.csv", "*.txt")),))
_TONIC = (
    _gesture("Train", "3a8f0d4120a166bac7591f77409cb105", 38022171),
    _gesture("Test", "56070e45dadaa85fff82e0fbfbc06de5", 38020584),
)
_TONIC_FOLDERS = tuple(File((Form(f"ibmGesture{part}", members=("*/*.npy",)),)) for part in ("Train", "Test"))

DVS128 = Entry(
    name="dvs128",
    title="DVS128 Gesture",
    what="1,176 + 288 hand gestures before an event camera, 2x128x128, 11 classes",
    licence="CC BY 4.0",
    homepage="https://research.ibm.com/interactive/dvsgesture/",
    citation="Amir et al.: A low power, fully event-based gesture recognition system, CVPR 2017",
    classes=11,
    group_names="users",
    # the paper's bins
    source=EventSource(_read, bin_ms=5.0, steps=100, test_steps=360, downsample=4, sensor=(128, 128)),
    class_names=(
        *("hand clapping", "right hand wave", "left hand wave", "right arm clockwise", "right arm counter-clockwise"),
        *("left arm clockwise", "left arm counter-clockwise", "arm roll", "air drums", "air guitar", "other gestures"),
    ),
    folders=(
        *("dvs128", "DVSGesture", "DVS128Gesture", "DVS128Gesture/download", "DVS128Gesture/extract"),
        *("download", "extract", "."),
    ),
    editions=(
        Edition("published", (_ARCHIVE,)),
        Edition(f"packed, {UNKNOWN}", (_OTHER_ARCHIVE,), read=_read_all),
        Edition(UNKNOWN, (_FOLDER,), read=_read_all),
        Edition("cut by tonic", _TONIC),
        Edition(f"cut by tonic, {UNKNOWN}", _TONIC_FOLDERS, read=_read_all),
    ),
    page="https://research.ibm.com/interactive/dvsgesture/",
)
