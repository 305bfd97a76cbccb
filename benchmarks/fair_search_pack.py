"""The small files that fair_search.py needs to go on elsewhere, as one archive; checkpoints stay behind."""

from __future__ import annotations

import lzma
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bitspike.files import write_atomically
from bitspike.text import number_of
from fair_search_settings import VARIANTS

ENDING = ".tar.xz"
OF_A_STUDY = ("study.json", "journal.log")  # trials that were running begin again
OF_A_RUN = ("experiment.toml", "metrics.jsonl", "summary.json")  # of one that has ended


def pack(out: Path, file: Path) -> None:
    """Write the studies of a folder and its long trainings that have ended into the file, and say so."""
    paths = list(_small_files(out))
    if not paths:
        print(f"nothing to pack: {out} holds no study; {file} is not written")
        return

    def write(to: Path) -> None:
        with tarfile.open(to, "w:xz") as archive:
            for path in paths:
                archive.add(path, Path(out.absolute().name, path.relative_to(out)).as_posix(), filter=_nobodys)

    write_atomically(file, write)
    print(f"packed {number_of(len(paths), 'file')} into {file}, {file.stat().st_size / 2**20:.1f} MiB")


def _small_files(out: Path) -> Iterator[Path]:
    for variant in VARIANTS:
        if (out / variant / OF_A_STUDY[0]).is_file():
            yield from (out / variant / name for name in OF_A_STUDY)
    yield from (path for path in sorted(out.glob("long/*.toml")) if not path.name.startswith("."))
    for summary in sorted(out.glob("long/*/trial-*/summary.json")):
        yield from (path for name in OF_A_RUN if (path := summary.with_name(name)).is_file())


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(file: Path, out: Path) -> None:
    """Unpack a file that `pack` wrote into the folder, which must be empty or not be there."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--unpack: {out} is not empty; leave --unpack out to go on with it, or choose another --out")
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.absolute().parent) as made:
        try:
            _extract(file, Path(made))
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise ValueError(f"--unpack: {file} cannot be unpacked ({error}); give a file that --pack wrote") from None
        tops = list(Path(made).iterdir())
        if len(tops) != 1 or not any((tops[0] / variant / OF_A_STUDY[0]).is_file() for variant in VARIANTS):
            raise ValueError(f"--unpack: {file} holds no studies in one folder; give a file that --pack wrote")
        tops[0].rename(out)  # the folder is there as a whole, or not at all


def _extract(file: Path, to: Path) -> None:
    """Extract plain files and folders; all else, and what would lie outside of the folder, is refused."""
    with lzma.open(file) as stream:  # to its end, where the checksum is: tarfile does not look so far
        while stream.read(1 << 20):
            pass
    with tarfile.open(file, "r:xz") as archive:
        strange = [member.name for member in archive if not (member.isfile() or member.isdir())]
        if strange:
            raise ValueError(
                f"--unpack: {file} holds {strange[0]!r}, which is no plain file; give one that --pack wrote"
            )
        archive.extractall(to, filter="data")
