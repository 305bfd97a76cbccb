"""benchmarks/fair_search_pack.py: a search and its long trainings go on where only small files were carried."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest

from helpers.fair_search import Played

OPTIONS = ("--only", "fixed", "--trials", "3", "--best", "2", "--seeds", "2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "carried.tar.xz"


def names(file: Path) -> list[str]:
    with tarfile.open(file) as archive:
        return archive.getnames()


def test_all_goes_on_after_pack_delete_unpack(played: Played, file: Path) -> None:
    played.search("fixed", 2)
    (played.out / "fixed" / "trials" / "00000").mkdir(parents=True)
    (played.out / "fixed" / "trials" / "00000" / "last.ckpt").touch()
    assert played.main(*OPTIONS, "--minutes", "0", "--pack", str(file)) == 75
    assert names(file) == ["out/fixed/study.json", "out/fixed/journal.log"]
    journal = (played.out / "fixed" / "journal.log").read_bytes()

    shutil.rmtree(played.out)
    assert played.main(*OPTIONS, "--minutes", "0", "--unpack", str(file)) == 75
    assert (played.out / "fixed" / "journal.log").read_bytes() == journal
    assert len(played.ranking("fixed")) == 2

    shutil.rmtree(played.out / "fixed")
    played.search("fixed", 3)
    first, second = (f"fixed-trial{trial}-110" for trial in played.ranking("fixed")[:2])
    played.results[second] = {1: (0.9, 0.8)}  # its other seed has not ended
    under_way = played.out / "long" / second / "trial-0"
    under_way.mkdir(parents=True)
    for name in ("experiment.toml", "metrics.jsonl", "last.ckpt"):
        (under_way / name).touch()
    assert played.main(*OPTIONS, "--pack", str(file)) == 75
    runs = [(first, 0), (first, 1), (second, 1)]
    small = ("experiment.toml", "summary.json")
    assert sorted(each for each in names(file) if each.startswith("out/long")) == sorted(
        [f"out/long/{setting}.toml" for setting in (first, second)]
        + [f"out/long/{setting}/trial-{seed}/{name}" for setting, seed in runs for name in small]
    )
    assert played.trained() == [first, second]

    shutil.rmtree(played.out)
    played.out.mkdir()  # an empty folder is no hindrance
    played.results.clear()
    assert played.main(*OPTIONS, "--unpack", str(file)) == 0
    assert played.trained() == [second]


def test_a_folder_with_a_study_is_not_unpacked_into(
    played: Played, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played.search("fixed")
    played.main(*OPTIONS, "--stage", "report", "--pack", str(file))
    packed = file.read_bytes()
    shutil.rmtree(played.out / "fixed")
    played.search("moving")
    assert played.main(*OPTIONS, "--unpack", str(file), "--pack", str(file)) == 1
    assert f"fair_search: --unpack: {played.out} is not empty; leave --unpack out" in capsys.readouterr().err
    assert [each.name for each in played.out.iterdir() if each.is_dir()] == ["moving"]
    assert file.read_bytes() == packed
    assert played.commands == []


def test_nothing_is_packed_where_nothing_is(played: Played, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(b"what was carried before")
    assert played.main(*OPTIONS, "--minutes", "0", "--pack", str(file)) == 75
    assert file.read_bytes() == b"what was carried before"
    assert f"nothing to pack: {played.out} holds no study" in capsys.readouterr().out


def test_it_is_packed_after_a_failure_too(played: Played, file: Path) -> None:
    played.search("fixed")

    def during(setting: str) -> None:
        raise error

    played.during, error = during, played.script.CommandError("it failed")
    assert played.main(*OPTIONS, "--pack", str(file)) == 1
    assert "out/fixed/journal.log" in names(file)

    file.unlink()
    error = RuntimeError("nobody thought of this")
    with pytest.raises(RuntimeError):
        played.main(*OPTIONS, "--pack", str(file))
    assert "out/fixed/journal.log" in names(file)


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ("../stray/study.json", "outside the destination"),
        ("/stray/study.json", "holds no studies in one folder"),  # filter="data" takes the first sign off
        ("out/link", "which is no plain file"),
        ("out/other/study.json", "holds no studies in one folder"),
        ("", "cannot be unpacked"),
    ],
)
def test_a_strange_archive_is_refused(
    played: Played, file: Path, capsys: pytest.CaptureFixture[str], member: str, why: str
) -> None:
    with tarfile.open(file, "w:xz") as archive:
        for name in filter(None, ["out/fixed/study.json" if member != "out/other/study.json" else "", member]):
            info = tarfile.TarInfo(name)
            if name == "out/link":
                info.type, info.linkname = tarfile.SYMTYPE, "/etc"
            archive.addfile(info, io.BytesIO())
    if not member:
        file.write_bytes(file.read_bytes()[:-30])
    assert played.main(*OPTIONS, "--unpack", str(file)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"fair_search: --unpack: {file} ")
    assert why in line
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert played.commands == []


@pytest.mark.parametrize("option", ["--pack", "--unpack"])
def test_the_name_says_the_format(played: Played, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        played.main(option, "carried.zip")
    assert f"{option} carried.zip: the name must end with .tar.xz" in capsys.readouterr().err
