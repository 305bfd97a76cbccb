"""The forms in which a trained network leaves PyTorch, and `export_run`, which writes one of them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bitspike.deploy.model import NetworkModel
from bitspike.deploy.packing.vector import CheckVector
from bitspike.deploy.pretrained import pretrained_names, pretrained_path
from bitspike.experiments.exporting import described_run
from bitspike.experiments.predicting.trained_on import of_model
from bitspike.files import explained, require_folder
from bitspike.text import did_you_mean, printable

C_MARK = b"written by bitspike"  # in model.h
PAGE_MARK = b'"inputShape":'  # of the network within the page
MOST_READ = 1 << 20  # bytes that are searched for a mark
_GIVE = "a run's folder, a packed file, or a pretrained network"


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A network to export: where it lies, its plain arrays, a vector to check engines with, and notes for a person."""

    path: Path
    model: NetworkModel
    vector: Callable[[], CheckVector | None]  # PyTorch computes that of a run
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Export:
    """A form that `bitspike export --to NAME` writes: a file, or a folder where `suffix` is empty.

    `is_one` tells an earlier export from files that must not be written over. `then` is what to run next.
    """

    name: str
    what: str
    suffix: str
    write: Callable[[Source, Path], object]
    is_one: Callable[[Path], bool]
    then: Callable[[NetworkModel, Path], str]


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: `files` with their bytes, of a network with `weights` of one bit each."""

    run: Path
    to: str
    out: Path
    model: NetworkModel
    files: dict[str, int]
    then: str
    notes: tuple[str, ...] = ()

    @property
    def weight_bytes(self) -> int:
        """The bytes that the weights take, eight in one."""
        return -(-self.model.weights // 8)

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(self.files.values())


def export_run(path: Path, to: str, out: Path | None = None) -> Exported:
    """Write a network in the form `to`; `out` is by default named after the experiment.

    `path` is a run, whose best network is taken, a packed file, or the name of a pretrained network.
    """
    form = lookup_export(to)
    found = _source(path, form)
    out = default_out(found.model, form) if out is None else out
    require_free(out, form)
    before = _files(out)
    with explained(out):
        (form.write if form.suffix else _write_folder(form))(found, out)
    files = {name: size for name, (size, *when) in _files(out).items() if before.get(name) != (size, *when)}
    return Exported(found.path, form.name, out, found.model, files, form.then(found.model, out), found.notes)


def _source(path: Path, form: Export) -> Source:
    """Return the network of a run, of a packed file or of a pretrained name; the last two are not packed again."""
    known = not path.exists() and path.as_posix() in pretrained_names()
    if known or path.is_file():
        return _packed_source(path, pretrained_path(path.as_posix()) if known else path, form)
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist: give {_GIVE}; {did_you_mean(path.as_posix(), pretrained_names(), cutoff=0.4)}"
            f"pretrained are {', '.join(pretrained_names())}"
        )
    from bitspike.deploy.packing.answers import make_vector

    found = described_run(path)
    return Source(found.run, found.model, lambda: make_vector(found.net, found.model), found.notes)


def _packed_source(path: Path, file: Path, form: Export) -> Source:
    from bitspike.deploy.packed import read_packed_file

    if not _is_packed(file):
        raise NotADirectoryError(f"{path} is a file, and no packed network; give {_GIVE}")
    if form.name == "packed":
        what = "is packed already" if file == path else "is a pretrained network, which is packed already"
        raise ValueError(
            f"{path} {what}: bitspike predict takes it; export --to packed needs the folder of a run, as bitspike "
            "train makes it"
        )
    model, vector = read_packed_file(file)
    return Source(path, model, lambda: vector)


def _write_folder(form: Export) -> Callable[[Source, Path], None]:
    """Return the writer of a folder that leaves nothing behind if it fails, such as on a full disk."""

    def write(found: Source, out: Path) -> None:
        beside = out if out.is_dir() else out.parent  # on the same disk, and allowed to be written into
        beside.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=beside, prefix=f".{out.name}-") as partial:
            form.write(found, Path(partial))
            for file in sorted(each for each in Path(partial).rglob("*") if each.is_file()):
                place = out / file.relative_to(partial)
                place.parent.mkdir(parents=True, exist_ok=True)
                file.replace(place)

    return write


def _files(out: Path) -> dict[str, tuple[int, int, int]]:
    """Return size, time and number of each file: one that was written anew has another number."""
    paths = sorted(each for each in out.rglob("*") if each.is_file()) if out.is_dir() else [out] if out.exists() else []
    found = {str(each.relative_to(out)) if each != out else out.name: each.stat() for each in paths}
    return {name: (each.st_size, each.st_mtime_ns, each.st_ino) for name, each in found.items()}


def lookup_export(name: str) -> Export:
    """Return the form `name`; the error for an unknown name lists all, and the nearest one."""
    if name in EXPORTS:
        return EXPORTS[name]
    raise ValueError(
        f"--to: unknown form {printable(name)!r}: {did_you_mean(name, EXPORTS)}known are {', '.join(EXPORTS)}"
    )


def default_out(model: NetworkModel, form: Export) -> Path:
    """Return a name in this folder, made of the experiment's: fashion/best gives fashion-best.safetensors."""
    name = re.sub(r"[^\w.-]+", "-", model.metadata.get("experiment", "")).strip("-.") or "network"
    return Path(f"{name}{form.suffix}" if form.suffix else f"{name}-{form.name}")


def require_free(out: Path, form: Export) -> None:
    """Raise unless `out` is free, or an earlier export of the same form, which may be written over."""
    if not form.suffix:
        require_folder(out, "choose another --out")
        if out.is_dir() and any(out.iterdir()) and not form.is_one(out):
            raise ValueError(f"{out} is not empty and holds no earlier export --to {form.name}; choose another --out")
        return
    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder, but a file is written; give --out {out / f'NAME{form.suffix}'}")
    require_folder(out.parent, "choose another --out")
    if out.exists() and not form.is_one(out):
        raise ValueError(f"{out} exists and is no earlier export --to {form.name}; choose another --out")


# ---- The forms. Each is imported when it is used.


def _write_packed(found: Source, out: Path) -> None:
    from bitspike.deploy.packed import write_packed

    write_packed(found.model, out, found.vector())


def _is_packed(path: Path) -> bool:
    from bitspike.deploy.packed import is_packed

    return is_packed(path)


def _write_c(found: Source, out: Path) -> None:
    from bitspike.deploy.c_export import write_c

    write_c(found.model, out, found.vector())


def _is_c(folder: Path) -> bool:
    header = folder / "model.h"
    return header.is_file() and C_MARK in header.read_bytes()[:MOST_READ]


def _write_page(found: Source, out: Path) -> None:
    from bitspike.deploy.page import write_page

    write_page(found.model, out)


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        content = stream.read(MOST_READ)
    return content.lower().startswith(b"<!doctype html") and PAGE_MARK in content


def _predict(model: NetworkModel, out: Path) -> str:
    file = {"image": "IMAGE.png", "events": "EVENTS.npz", "values": "SAMPLES.npz"}[model.input.kind]
    return f"bitspike predict {out} {'RECORDING.wav' if of_model(model).hears_recordings else file}"


EXPORTS = {
    form.name: form
    for form in (
        Export(
            "packed",
            "one file of one bit a weight, for bitspike.load_packed and bitspike predict",
            ".safetensors",
            _write_packed,
            _is_packed,
            _predict,
        ),
        Export(
            "c",
            "a folder of C99 with a Makefile, for computers and microcontrollers",
            "",
            _write_c,
            _is_c,
            lambda model, out: f"make -C {out} check",
        ),
        Export(
            "html",
            "one page that runs the network in a browser, offline",
            ".html",
            _write_page,
            _is_page,
            lambda model, out: f"open {out} in a browser",
        ),
    )
}
