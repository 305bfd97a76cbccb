"""The cache gives what binning gives, reads once, waits for another process, and builds again what is damaged."""

import errno
import getpass
import json
import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from bitspike.data import frame_cache
from bitspike.data.binning import Binning, bin_events
from bitspike.data.config import DataConfig
from bitspike.data.datasets import open_dataset
from bitspike.data.events import Events
from bitspike.data.frame_cache import cached_frames
from bitspike.data.tally import COLUMNS
from helpers.files import event_arrays, write_npz

BINNING = Binning(10, 8, clip=3)
KEY = {"dataset": "made", "split": "train"}


def some_events(seed=0, samples=6, each=30, groups=None):
    rng = np.random.default_rng(seed)
    lengths = np.array([each] * (samples - 1) + [0])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    t, x = rng.integers(0, 90, offsets[-1]), rng.integers(0, 5, offsets[-1])
    return Events(t, x, None, None, offsets, np.arange(samples) % 3, (5,), groups)


def same(one, other):
    tensors = ("index", "count", "starts", "lengths", "labels")
    plain = ("steps", "shape", "longest")
    columns = (*COLUMNS, "bin_us", "end_us")
    return (
        all(torch.equal(getattr(one, name), getattr(other, name)) for name in tensors)
        and all(getattr(one, name) == getattr(other, name) for name in plain)
        and all(np.array_equal(getattr(one.tally, name), getattr(other.tally, name)) for name in columns)
    )


def never():
    pytest.fail("read was called, though the frames are there")


def only_file(folder):
    (path,) = folder.glob("*.safetensors")
    return path


# ---- Hits and misses


@given(st.integers(0, 99), st.integers(1, 5), st.integers(0, 40), st.integers(1, 3))
def test_the_cache_gives_what_binning_gives(tmp_path_factory, seed, samples, each, workers):
    folder, events = tmp_path_factory.mktemp("cache"), some_events(seed, samples, each)
    expected = bin_events(events, BINNING)
    assert same(cached_frames(lambda: events, BINNING, KEY, folder, workers=workers), expected)
    assert same(cached_frames(never, BINNING, KEY, folder), expected)


def test_groups_are_kept(tmp_path):
    events = some_events(groups=np.array([5, 5, 0, 9, 9, 5]))
    built = cached_frames(lambda: events, BINNING, KEY, tmp_path)
    read = cached_frames(never, BINNING, KEY, tmp_path)
    assert built.groups.tolist() == read.groups.tolist() == [5, 5, 0, 9, 9, 5]
    assert read.groups.dtype == torch.int64
    assert bin_events(events, BINNING, range(1, 4)).groups.tolist() == [5, 0, 9]
    cached_frames(some_events, BINNING, KEY, tmp_path / "without")
    assert cached_frames(never, BINNING, KEY, tmp_path / "without").groups is None


@pytest.mark.parametrize("groups", [torch.zeros(5, dtype=torch.int64), torch.zeros(6)])
def test_wrong_groups_are_built_again(tmp_path, groups):
    cached_frames(some_events, BINNING, KEY, tmp_path)
    path = only_file(tmp_path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    safetensors.torch.save_file(safetensors.torch.load_file(path) | {"groups": groups}, path, metadata=metadata)
    assert rebuilt(tmp_path)


@pytest.mark.parametrize("change", ["key", "more key", "bin_us", "steps", "clip", "duration_us", "polarity", "format"])
def test_anything_else_is_another_file(tmp_path, change, monkeypatch):
    cached_frames(some_events, BINNING, KEY, tmp_path)
    key, binning, reads = dict(KEY), BINNING, []
    if change == "key":
        key["split"] = "test"
    elif change == "more key":
        key["edition"] = "published"
    elif change == "format":
        monkeypatch.setattr(frame_cache, "FORMAT", 999)
    else:
        binning = replace(binning, **{change: {"clip": None, "polarity": False}.get(change, 7)})
    cached_frames(lambda: reads.append(1) or some_events(), binning, key, tmp_path)
    assert reads == [1]
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_the_order_of_the_key_does_not_matter(tmp_path):
    cached_frames(some_events, BINNING, KEY, tmp_path)
    cached_frames(never, BINNING, dict(reversed(KEY.items())), tmp_path)


def test_the_file_says_what_it_is_made_from(tmp_path):
    cached_frames(some_events, BINNING, KEY, tmp_path / "new" / "folder")
    with safe_open(only_file(tmp_path / "new" / "folder"), "pt") as file:
        made_from = json.loads(file.metadata()["made_from"])
    assert made_from["key"] == KEY
    assert made_from["binning"]["bin_us"] == 10


def test_progress_is_told(tmp_path):
    stages = []

    def progress(stage, steps):
        stages.append((stage, steps))
        return lambda: stages.append("step")

    cached_frames(some_events, BINNING, KEY, tmp_path, progress=progress)
    assert stages == [("binning events", 1), "step"]
    cached_frames(never, BINNING, KEY, tmp_path, progress=progress)
    assert len(stages) == 2


def test_an_error_while_reading_leaves_nothing_behind(tmp_path):
    def broken():
        raise ValueError("events are broken")

    with pytest.raises(ValueError, match="events are broken"):
        cached_frames(broken, BINNING, KEY, tmp_path)
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []
    cached_frames(some_events, BINNING, KEY, tmp_path)


# ---- Damage


def rebuilt(folder):
    """Whether the file is noticed to be damaged, and mended."""
    expected, reads = bin_events(some_events(), BINNING), []
    assert same(cached_frames(lambda: reads.append(1) or some_events(), BINNING, KEY, folder), expected)
    assert same(cached_frames(never, BINNING, KEY, folder), expected)
    return reads == [1]


@pytest.mark.parametrize("length", [0, 5, 8, 100, -1, -400])
def test_a_file_cut_short_is_built_again(tmp_path, length):
    cached_frames(some_events, BINNING, KEY, tmp_path)
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    assert rebuilt(tmp_path)


@pytest.mark.parametrize("data", [b"x" * 50, b"\xff" * 50, b"\x02" + bytes(7) + b"{}", b"\x02" + bytes(7) + b"[]"])
def test_other_bytes_are_built_again(tmp_path, data):
    cached_frames(some_events, BINNING, KEY, tmp_path)
    only_file(tmp_path).write_bytes(data)
    assert rebuilt(tmp_path)


def changed(name, at, value):
    def change(tensors, metadata):
        tensors[name][at] = value

    return change


def cut(name):
    def change(tensors, metadata):
        tensors[name] = tensors[name][:-1].clone()

    return change


def retyped(name, dtype):
    def change(tensors, metadata):
        tensors[name] = tensors[name].to(dtype)

    return change


def removed(name):
    def change(tensors, metadata):
        del (tensors if name in tensors else metadata)[name]

    return change


def with_metadata(name, value):
    def change(tensors, metadata):
        metadata[name] = value

    return change


def swapped(tensors, metadata):
    first = tensors["index"][:2].clone()
    tensors["index"][0], tensors["index"][1] = first[1], first[0]


def doubled(tensors, metadata):
    tensors["index"][1] = tensors["index"][0]


def moved(tensors, metadata):
    tensors["lengths"][0] += 1
    tensors["lengths"][1] -= 1


def both_cut(tensors, metadata):
    cut("index")(tensors, metadata)
    cut("count")(tensors, metadata)


def one_too_many_and_one_too_few(tensors, metadata):
    tensors["lengths"][4] += 1
    tensors["lengths"][5] -= 1


def flat(tensors, metadata):
    tensors["index"] = tensors["index"][None]


DAMAGE = {
    "index too large": changed("index", -1, 40),
    "index negative": changed("index", 0, -1),
    "index not sorted": swapped,
    "index twice": doubled,
    "index of two dimensions": flat,
    "count of nothing": changed("count", 3, 0),
    "index shorter": cut("index"),
    "count shorter": cut("count"),
    "labels shorter": cut("labels"),
    "lengths shorter": cut("lengths"),
    "lengths wrong": changed("lengths", 0, 9),
    "lengths moved": moved,
    "the end missing": both_cut,
    "lengths balanced": one_too_many_and_one_too_few,
    "lengths negative": changed("lengths", 5, -1),
    "label negative": changed("labels", 0, -1),
    "index of another type": retyped("index", torch.int64),
    "count of another type": retyped("count", torch.int32),
    "lengths of another type": retyped("lengths", torch.int32),
    "labels of another type": retyped("labels", torch.int32),
    "index missing": removed("index"),
    "labels missing": removed("labels"),
    "tally missing": removed("tally"),
    "tally shorter": cut("tally"),
    "tally negative": changed("tally", (1, 2), -1),
    "tally of another type": retyped("tally", torch.int32),
    "shape missing": removed("shape"),
    "shape no list": with_metadata("shape", "5"),
    "shape not json": with_metadata("shape", "["),
    "shape wrong": with_metadata("shape", "[4]"),
    "shape zero": with_metadata("shape", "[0]"),
    "shape a fraction": with_metadata("shape", "[5.0]"),
    "source missing": removed("made_from"),
    "source wrong": with_metadata("made_from", "{}"),
}


@pytest.mark.parametrize("change", list(DAMAGE))
def test_wrong_numbers_are_built_again(tmp_path, change):
    cached_frames(some_events, BINNING, KEY, tmp_path)
    path = only_file(tmp_path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}
    DAMAGE[change](tensors, metadata)
    safetensors.torch.save_file(tensors, path, metadata=metadata)
    assert rebuilt(tmp_path)


def test_silent_samples_everywhere_are_no_damage(tmp_path):
    lengths = [0, 0, 4, 0, 3, 0, 0]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    events = Events(np.zeros(7, np.int64), np.array([4, 3, 2, 1, 4, 3, 2]), None, None, offsets, np.arange(7), (5,))
    built = cached_frames(lambda: events, BINNING, KEY, tmp_path)
    assert same(cached_frames(never, BINNING, KEY, tmp_path), built)


def test_a_silent_start_does_not_hide_the_end(tmp_path):
    lengths, labels, count = torch.tensor([0, 3]), torch.tensor([0, 1]), torch.ones(3, dtype=torch.uint8)
    good, bad = torch.tensor([1, 2, 4], dtype=torch.int32), torch.tensor([1, 4, 2], dtype=torch.int32)
    assert frame_cache._is_sound(good, count, lengths, labels, bins=5)
    assert not frame_cache._is_sound(bad, count, lengths, labels, bins=5)


# ---- A full disk


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch, number):
    def full(tensors, path, metadata=None):
        Path(path).write_bytes(b"half of it")
        # what the library raises, see the test below
        raise safetensors.SafetensorError(f"Error while serializing: I/O error: full (os error {number})")

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", full)
        with pytest.raises(OSError, match=r"could not be written: .*; free some space") as caught:
            cached_frames(some_events, BINNING, KEY, tmp_path)
    assert caught.value.errno == number
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []
    assert rebuilt(tmp_path)


@pytest.mark.slow
def test_a_real_limit_on_the_size_of_files(tmp_path):
    resource = pytest.importorskip("resource")
    script = f"""
        import resource, sys
        sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
        from pathlib import Path
        from test_frame_cache import BINNING, KEY, some_events
        from bitspike.data.frame_cache import cached_frames
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            cached_frames(lambda: some_events(samples=99), BINNING, KEY, Path({str(tmp_path)!r}))
        except OSError as error:
            print(error.errno, error)
    """
    assert resource is not None
    done = python(script)
    assert done.stdout.startswith(str(errno.EFBIG)), done.stdout + done.stderr
    assert "free some space" in done.stdout
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


# ---- Two processes


def python(script):
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_two_processes_at_once_read_once(tmp_path):
    # Each waits for the other to be there, then both ask; the one that reads is slow about it.
    script = f"""
        import os, sys, time
        sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
        from pathlib import Path
        from test_frame_cache import BINNING, KEY, some_events
        from bitspike.data.frame_cache import cached_frames
        folder, stages = Path({str(tmp_path)!r}), []

        def read():
            (folder / f"read-{{os.getpid()}}").touch()
            time.sleep(0.5)
            return some_events()

        def progress(stage, steps):
            stages.append(stage.split()[0])
            return lambda: None

        (folder / f"ready-{{os.getpid()}}").touch()
        while len(list(folder.glob("ready-*"))) < 2:
            time.sleep(0.001)
        frames = cached_frames(read, BINNING, KEY, folder / "cache", progress=progress)
        print(*stages, frames.index.tolist())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(list(tmp_path.glob("read-*"))) == 1
    index = bin_events(some_events(), BINNING).index.tolist()
    assert sorted(output for output, _ in outputs) == [f"binning {index}\n", f"waiting {index}\n"]


def test_as_many_threads_as_there_are_cores_but_not_too_many():
    assert frame_cache._workers(3) == 3
    assert frame_cache._workers(None) == min(8, os.cpu_count())


def test_rotated_labels_in_the_shared_temporary_folder_are_not_trained_on(unwritable, tmp_path, monkeypatch):
    arrays = event_arrays()
    path = write_npz(tmp_path / "own.npz", **arrays)
    config = DataConfig(file=path, bin_ms=1.0, steps=20)
    honest = open_dataset(config, root=tmp_path / "good")
    for user in {getpass.getuser(), str(os.getuid()) if hasattr(os, "getuid") else "0"}:
        planted = shutil.copytree(tmp_path / "good" / "cache", tmp_path / "tmp" / f"bitspike-cache-{user}")
        for file in planted.glob("*.safetensors"):
            tensors = {name: tensor.clone() for name, tensor in safetensors.torch.load_file(file).items()}
            tensors["labels"] = (tensors["labels"] + 1) % 3
            with safe_open(file, "pt") as opened:
                safetensors.torch.save_file(tensors, file, metadata=opened.metadata())
    data = open_dataset(config, root=unwritable)
    assert same(data.train, honest.train)
    assert same(data.test, honest.test)


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert same(cached_frames(some_events, BINNING, KEY, None), bin_events(some_events(), BINNING))
    assert list(tmp_path.iterdir()) == []
