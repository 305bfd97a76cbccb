"""The data sets by name: of which files each consists, where they come from, how a right one is known."""

from __future__ import annotations

import difflib
import gzip
import hashlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bitspike.files import digest

Checksum = tuple[str, str]  # algorithm, hexadecimal
UNKNOWN = "local copy, checksum not known"


@dataclass(frozen=True, slots=True)
class Form:
    """One way a file comes: under a name, packed or not. A folder has `members`, the patterns of its files."""

    name: str
    checksum: Checksum | None = None
    size: int | None = None
    urls: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    def files(self, path: Path) -> list[Path]:
        """The plain files that `path` stands for, in order; none if it is not there."""
        if not self.members:
            return [path] if path.is_file() else []
        return sorted({file for pattern in self.members for file in path.glob(pattern) if file.is_file()})


@dataclass(frozen=True, slots=True)
class File:
    """A file in any of its forms; it goes by the first one's name. `content` is (size, sha256) once unpacked:

    a .gz compressed by someone else, or not compressed at all, is as good.
    """

    forms: tuple[Form, ...]
    content: tuple[int, str] | None = None

    @property
    def name(self) -> str:
        """The same whichever form it has."""
        return self.forms[0].name


@dataclass(frozen=True, slots=True)
class Edition:
    """One set of files that is the data set. Where no checksum is known, `read` reads all of them or raises."""

    name: str
    files: tuple[File, ...]
    title: str = ""  # where it must not go by the data set's own
    read: Callable[[Mapping[str, Path]], object] | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A data set. Editions come in the order of preference; one without editions is built in.

    `folders` are the names under which copies lie; `page` is where a person gets it if no mirror gives it.
    """

    name: str
    title: str
    what: str
    licence: str
    homepage: str
    citation: str
    folders: tuple[str, ...] = (".",)
    editions: tuple[Edition, ...] = ()
    page: str = ""


def lookup(name: str, catalog: Mapping[str, Entry]) -> Entry:
    """The data set of that name; an unknown one is answered with the nearest and all names."""
    if name in catalog:
        return catalog[name]
    near = difflib.get_close_matches(name, catalog, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"unknown data set {name!r}: {hint}known are {', '.join(catalog)}")


def fault(file: File, form: Form, path: Path) -> str | None:
    """What is wrong with the bytes of `path`, or None; None too where no checksum is known."""
    wrong = _form_fault(form, path)
    return _content_fault(path, *file.content) if wrong and file.content else wrong


def _form_fault(form: Form, path: Path) -> str | None:
    if form.checksum is None:
        return None
    if form.size not in (None, size := path.stat().st_size):
        return f"has {size} bytes, not {form.size}"
    algorithm, expected = form.checksum
    found = digest(path, algorithm)
    return None if found == expected else f"has the {algorithm} {found}, not {expected}"


def _content_fault(path: Path, size: int, sha256: str) -> str | None:
    """As `fault`, of what a .gz holds; never unpacks more than the content may have."""
    summed, seen = hashlib.sha256(), 0
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            while seen <= size and (block := stream.read(min(1 << 20, size + 1 - seen))):
                summed.update(block)
                seen += len(block)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            return f"is a damaged .gz file ({str(error).rstrip('.')})"
    if seen != size:
        return f"holds {'more' if seen > size else seen} bytes; its content must have {size}"
    return None if summed.hexdigest() == sha256 else f"holds content with the sha256 {summed.hexdigest()}, not {sha256}"


# ---- The data sets


def _images(mirrors: tuple[str, ...], *rows: tuple[int, str, str]) -> tuple[File, ...]:
    """The four IDX files, a row each: size and md5 of the .gz, sha256 of its content. `[N, 28, 28]` and `[N]` bytes."""
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    lengths = (16 + 60_000 * 784, 8 + 60_000, 16 + 10_000 * 784, 8 + 10_000)
    files = []
    for name, length, (size, md5, sha256) in zip(names, lengths, rows, strict=True):
        packed = Form(f"{name}.gz", ("md5", md5), size, tuple(f"{mirror}{name}.gz" for mirror in mirrors))
        plain = (Form(alias, ("sha256", sha256), length) for alias in (name, name.replace("-idx", ".idx")))
        files.append(File((packed, *plain), (length, sha256)))
    return tuple(files)


def _pair(*rows: tuple[str, int, str]) -> tuple[File, ...]:
    """Files with one form and no mirror, a row each: name, size, sha256."""
    return tuple(File((Form(name, ("sha256", sha256), size),)) for name, size, sha256 in rows)


def _shd(part: str, gz: str, zipped: str, plain: str) -> File:
    # The sums of .gz and .zip are those that loaders of several projects check; of the plain file, norse's.
    hosts = ("https://zenkelab.org/datasets/", "https://compneuro.net/datasets/")
    packed = (
        Form(f"shd_{part}.h5{end}", ("md5", md5), None, tuple(f"{host}shd_{part}.h5{end}" for host in hosts))
        for end, md5 in ((".gz", gz), (".zip", zipped))
    )
    return File((*packed, Form(f"shd_{part}.h5", ("md5", plain))))


def _gesture(part: str, md5: str, figshare: int) -> File:
    name = f"ibmGesture{part}.tar.gz"
    urls = (
        f"https://zenodo.org/records/8060604/files/{name}?download=1",
        f"https://figshare.com/ndownloader/files/{figshare}",
        f"https://api.figshare.com/v2/file/download/{figshare}",
    )
    return File((Form(name, ("md5", md5), None, urls),))


def _read_shd(files: Mapping[str, Path]) -> object:
    from bitspike.data.shd import read_shd

    return [len(read_shd(path)) for path in files.values()]


def _read_dvs_gesture(files: Mapping[str, Path]) -> object:
    from bitspike.data.dvs_gesture import read_dvs_gesture

    first = next(iter(files.values()))
    return read_dvs_gesture(first if len(files) == 1 else first.parent)


_MNIST = _images(
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    (9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    (28881, "d53e105ee54ea40749a09fcbcd1e9432", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    (1648877, "9fb629c4189551a2d022fa330f9573f3", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    (4542, "ec29112dd5afa0611ce80d1b7f02629c", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)
_FASHION = _images(
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    (26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    (29515, "25c81989df183df01b3e8a0aad5dffbe", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    (4422102, "bef4ecab320f06d8554ea6380940ec79", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    (5148, "bb300cfdad3c16e7a12a480ee83cd310", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)
_SHD = (
    _shd(
        "train",
        gz="d47c9825dee33347913e8ce0f2be08b0",
        zipped="f3252aeb598ac776c1b526422d90eecb",
        plain="8e9877c85f29a28dd353ea6a54402667",
    ),
    _shd(
        "test",
        gz="3062a80ec0c5719404d5b02e166543b1",
        zipped="1503a5064faa34311c398fb0a1ed0a6f",
        plain="207ad1295a0ab611e22d1734989c254e",
    ),
)
_SHD_REGENERATED = _pair(
    ("shd_train.npz.xz", 41956192, "41fef045b42f220aabb5bdc692bac2f2d4c91f48eda618f292c852066801065e"),
    ("shd_test.npz.xz", 12170208, "6b31e0f5aa3f210c6704904d89727db45ce22fe109916cc89bdb2d6e73c69d4e"),
)
_DVS128 = File(
    (
        Form(
            "DvsGesture.tar.gz",
            ("md5", "8a5c71fb11e24e5ca5b11866ca6c00a1"),
            urls=("https://www.dropbox.com/s/cct5kyilhtsliup/DvsGesture.tar.gz?dl=1",),
        ),
    )
)
_DVS128_FOLDER = File((Form("DvsGesture", members=("*.aedat", "*.csv", "*.txt")),))
_TONIC = (
    _gesture("Train", "3a8f0d4120a166bac7591f77409cb105", 38022171),
    _gesture("Test", "56070e45dadaa85fff82e0fbfbc06de5", 38020584),
)
_TONIC_FOLDERS = tuple(File((Form(f"ibmGesture{part}", members=("*/*.npy",)),)) for part in ("Train", "Test"))
_NMNIST = _pair(
    ("nmnist_slayer_train.npz", 13303124, "3e28e0dc1ed123914a4146d299f80fb31e9cbd150a1b51e4b71f9fae53fa05a2"),
    ("nmnist_slayer_test.npz", 1249025, "b712cfaa65c1a2fb7b0546c4be0aac144e693b44c9854dcbc9f08e7f9e66e7f3"),
)
_DVS_SIGN = _pair(
    ("dvs_sign_train.npz", 32267351, "dd30cf079b5b67aa74fb920330123943942b0c775af5737a0381d1bcbb6c5a58"),
    ("dvs_sign_test.npz", 7309771, "20062b580b1360f3f99cbd11a4df3fe4d51e568329ca3ee1adc8e69e557c570b"),
)

_ENTRIES = (
    Entry(
        name="mnist",
        title="MNIST",
        what="60,000 + 10,000 images of handwritten digits, 1x28x28, 10 classes",
        licence="CC BY-SA 3.0",
        homepage="http://yann.lecun.com/exdb/mnist/",
        citation="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, 1998",
        folders=("mnist", "MNIST", "MNIST/raw", "raw", "."),
        editions=(Edition("published", _MNIST),),
    ),
    Entry(
        name="fashion",
        title="FashionMNIST",
        what="60,000 + 10,000 images of clothes, 1x28x28, 10 classes",
        licence="MIT",
        homepage="https://github.com/zalandoresearch/fashion-mnist",
        citation="Xiao, Rasul, Vollgraf: Fashion-MNIST, arXiv:1708.07747",
        folders=("fashion", "fashion-mnist", "FashionMNIST", "FashionMNIST/raw", "raw", "."),
        editions=(Edition("published", _FASHION),),
    ),
    Entry(
        name="shd",
        title="Spiking Heidelberg Digits",
        what="8,156 + 2,264 spoken digits as spikes of 700 units, 20 classes",
        licence="CC BY 4.0",
        homepage="https://zenkelab.org/resources/spiking-heidelberg-datasets-shd/",
        citation="Cramer, Stradmann, Schemmel, Zenke: The Heidelberg Spiking Data Sets, doi:10.1109/TNNLS.2020.3044364",
        folders=("shd", "SHD", "hdspikes", "."),
        editions=(
            Edition("published", _SHD),
            Edition(UNKNOWN, tuple(File((Form(f"shd_{part}.h5"),)) for part in ("train", "test")), read=_read_shd),
            Edition("regenerated", _SHD_REGENERATED, title="SHD regenerated"),
        ),
    ),
    Entry(
        name="dvs128",
        title="DVS128 Gesture",
        what="1,176 + 288 hand gestures before an event camera, 2x128x128, 11 classes",
        licence="CC BY 4.0",
        homepage="https://research.ibm.com/interactive/dvsgesture/",
        citation="Amir et al.: A low power, fully event-based gesture recognition system, CVPR 2017",
        folders=(
            *("dvs128", "DVSGesture", "DVS128Gesture", "DVS128Gesture/download", "DVS128Gesture/extract"),
            *("download", "extract", "."),
        ),
        editions=(
            Edition("published", (_DVS128,)),
            Edition(UNKNOWN, (_DVS128_FOLDER,), read=_read_dvs_gesture),
            Edition("cut by tonic", _TONIC),
            Edition(f"cut by tonic, {UNKNOWN}", _TONIC_FOLDERS, read=_read_dvs_gesture),
        ),
        page="https://research.ibm.com/interactive/dvsgesture/",
    ),
    Entry(
        name="nmnist-small",
        title="N-MNIST, small",
        what="1,000 + 100 digits before an event camera, 2x34x34, 10 classes",
        licence="CC BY-SA 4.0",
        homepage="https://www.garrickorchard.com/datasets/n-mnist",
        citation="Orchard et al.: Converting static image datasets to spiking neuromorphic datasets, 2015",
        folders=("nmnist-small", "."),
        editions=(Edition("first 1,000 + 100 samples", _NMNIST),),
    ),
    Entry(
        name="dvs-sign",
        title="DVS sign gestures",
        what="600 + 150 hand signs, events simulated from 30 Hz video, 2x128x128, 15 classes",
        licence="not stated",
        homepage="",
        citation="",
        folders=("dvs-sign", "."),
        editions=(Edition("simulated from video", _DVS_SIGN),),
    ),
    Entry(
        name="coding",
        title="Temporal coding",
        what="one input of 100 Poisson spike trains, 100 steps, and the time at which to fire; drawn from the seed",
        licence="MIT",
        homepage="",
        citation="",
    ),
)

CATALOG: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
