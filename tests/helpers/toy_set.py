"""A small data set with several editions, and folders with its files: for whatever fetches and finds data sets."""

import gzip
import hashlib

from bitspike.data.entry import UNKNOWN, Edition, Entry, ImageSource, SeedSource
from bitspike.data.known_files import File, Form

TRAIN, TEST = b"train" * 5000, b"test" * 3000
OLD_TRAIN, OLD_TEST = b"old train", b"old test"


def gz(data, level=9):
    return gzip.compress(data, level, mtime=0)


def packed_file(name, data, base):
    sha256 = hashlib.sha256(data).hexdigest()
    urls = (f"{base}/{name}.gz",) if base else ()
    published = Form(f"{name}.gz", ("md5", hashlib.md5(gz(data)).hexdigest()), len(gz(data)), urls)
    return File((published, Form(name, ("sha256", sha256), len(data))), (len(data), sha256))


def old_file(name, data):
    return File((Form(name, ("sha256", hashlib.sha256(data).hexdigest())),))


def read_toy(files):
    """A reader of files without checksums: they must say that they are whole."""
    for path in files.values():
        for file in [path] if path.is_file() else sorted(path.rglob("*.npy")):
            if not file.read_bytes().endswith(b"whole"):
                raise ValueError(f"{file} is truncated")


def toys(base=""):
    """A catalog of one set with four editions, and one that is built in."""
    editions = (
        Edition("published", (packed_file("train", TRAIN, base), packed_file("test", TEST, base))),
        Edition(UNKNOWN, (File((Form("train.h5"),)), File((Form("test.h5"),))), read=read_toy),
        Edition("folder", (File((Form("Toy", members=("*/*.npy",)),)),), read=read_toy),
        Edition("regenerated", (old_file("train.old", OLD_TRAIN), old_file("test.old", OLD_TEST)), title="Toy again"),
    )
    toy = Entry(
        *("toy", "Toy set", "what", "MIT", "", "", 2, ImageSource(None)),
        folders=("toy", "Toy/raw", "."),
        editions=editions,
        page="https://toy.example/page",
    )
    return {"toy": toy, "made": Entry("made", "Made up", "what", "MIT", "", "", 2, SeedSource(None))}


PUBLISHED = {"train.gz": gz(TRAIN), "test.gz": gz(TEST)}
REGENERATED = {"train.old": OLD_TRAIN, "test.old": OLD_TEST}
OWN = {"train.h5": b"a whole", "test.h5": b"b whole"}


def put(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def left(root):
    """Everything under the root except the lock."""
    return sorted(
        path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and path.name != ".lock"
    )


FETCHED = ["toy/manifest.json", "toy/test.gz", "toy/train.gz"]
