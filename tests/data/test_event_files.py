"""One's own files: what each kind takes, in npz and HDF5 alike, and every way to get it wrong said in one line."""

import io
import pickle
import struct
import tracemalloc
import zipfile
from itertools import pairwise

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import array_files
from bitspike.data.array_files import open_arrays, read_npy
from bitspike.data.event_files import NEEDS, kind_of, read_event_file, read_image_file, read_spike_file
from bitspike.data.sample_columns import read_columns
from bitspike.data.speech.cochlea import Spikes
from bitspike.data.speech.spike_files import as_events, write_spikes
from helpers.files import event_arrays, npy_bytes, write_hdf5, write_npz

WRITERS = {"data.npz": write_npz, "data.h5": write_hdf5}


@pytest.fixture(params=list(WRITERS))
def write(request, tmp_path):
    """Writes the arrays it is called with, in one of the two formats."""
    return lambda **arrays: WRITERS[request.param](tmp_path / request.param, **arrays)


def refused(read, path, says):
    with pytest.raises(ValueError, match=says) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).count(str(path)) == 1
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- Kinds

IMAGES = {"images": np.zeros((2, 3, 3), np.uint8), "labels": [0, 1]}
SPIKES = {"spikes": np.zeros((2, 3, 3), np.uint8), "labels": [0, 1]}


def test_names_tell_the_kind(write):
    assert kind_of(write(**IMAGES, other=np.zeros(3))) == "images"
    assert kind_of(write(**SPIKES)) == "spikes"
    assert kind_of(write(**event_arrays())) == "events"
    assert kind_of(write(**event_arrays(unit="t"))) == "events"


def test_arrays_in_the_groups_of_an_hdf5_file_are_not_read(tmp_path):
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["labels"] = [0, 1]
        file["camera/t"] = [1, 2]
    refused(kind_of, path, r"; arrays in its HDF5 groups \(camera\) are not read: put them on the first level$")


def test_the_layout_of_shd_says_what_to_do(tmp_path):
    spikes = Spikes(np.array([10, 20]), np.array([3, 4], np.uint16), 0.1)
    path = write_spikes(tmp_path / "data.h5", as_events([spikes, spikes], [0, 1]))
    refused(
        kind_of, path, r"has the layout of SHD .* write a \.npz file \(`bitspike encode` does with --out FILE\.npz\)"
    )


@pytest.mark.parametrize(
    ("arrays", "kinds"),
    [
        ({"labels": [1]}, ("images", "events", "spikes")),
        ({"images": [1]}, ("images",)),
        (IMAGES | SPIKES, ("images", "spikes")),
        ({"t": [1], "x": [1], "labels": [1]}, ("events",)),
    ],
)
def test_an_unclear_kind_says_what_is_there_and_what_is_needed(write, arrays, kinds):
    path = write(**arrays)
    line = refused(kind_of, path, f"holds {', '.join(sorted(arrays))}, but must hold the arrays of one kind")
    assert [kind for kind in NEEDS if f"{kind}: {NEEDS[kind]}" in line] == list(kinds)


def test_a_given_kind_must_be_there(write):
    path = write(**event_arrays())
    assert kind_of(path, "events") == "events"
    refused(
        lambda path: kind_of(path, "images"), path, r"data\.kind = 'images' needs images .*, but images is missing: it "
    )
    refused(
        lambda path: kind_of(path, "spikes"), write(t=[1]), r"but labels, spikes are missing: it holds t; write these"
    )


def test_arrays_in_groups_are_not_found(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["train/labels"], file["test/labels"] = [1], [1]
    refused(
        kind_of,
        path,
        r"its arrays must be on the first level, but are in groups \(test, train\); write a file for each$",
    )


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        (("t", "x", "labels"), "of one kind; offsets is missing for events "),
        (("t_us", "y", "p"), "of one kind; x and offsets and labels are missing for events "),
        (("x", "offsets", "labels"), "of one kind; t is missing for events "),
        (("images",), "of one kind; labels is missing for images "),
        (("images", "spikes", "labels"), "of one kind; those of images and spikes are there: give data.kind "),
        (("labels",), "of one kind \\(images: "),
    ],
)
def test_what_a_kind_lacks_is_named(write, arrays, says):
    refused(kind_of, write(**{name: np.zeros(1) for name in arrays}), says)


# ---- Images


@pytest.mark.parametrize("shape", [(4, 5, 6), (4, 3, 5, 6)])
def test_images_are_bytes_or_floats(write, shape):
    values = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    labels = [3, 0, 1, 2]
    images = read_image_file(write(images=values, labels=labels))
    assert images.values.dtype == torch.uint8
    assert images.values.shape == (4, shape[1] if len(shape) == 4 else 1, 5, 6)
    assert np.array_equal(images.values.numpy().reshape(shape), values)
    assert images.labels.tolist() == labels
    for dtype in (np.float16, np.float32, np.float64):
        halves = read_image_file(write(images=(values > 99).astype(dtype) / 2, labels=labels)).values
        assert halves.dtype == torch.float32
        assert np.array_equal(halves.numpy().reshape(shape), (values > 99) / 2)


@pytest.mark.parametrize(
    ("images", "labels", "says"),
    [
        (np.zeros((2, 9)), [0, 1], r"images must be \[N, H, W\] or \[N, C, H, W\].* but is \[2, 9\]"),
        (np.zeros((2, 0, 3)), [0, 1], "images must be"),
        (np.zeros((2, 3, 3), np.int32), [0, 1], "images must be uint8, or floating point in .* but are int32"),
        (
            np.full((2, 3, 3), 255.0),
            [0, 1],
            r"images must be in \[0, 1\], but range over 255\.\.255; divide by 255, or",
        ),
        (np.full((2, 3, 3), 300.0), [0, 1], r"images must be in \[0, 1\], but range over 300\.\.300$"),
        (
            np.full((2, 3, 3), 255),
            [0, 1],
            r"images must be uint8, .* but are int64; write images\.astype\(\"uint8\"\)$",
        ),
        (
            np.full((2, 3, 3), np.nan),
            [0, 1],
            r"images must be numbers, but 18 of 18 are NaN or infinite \(the first at \[",
        ),
        (np.full((2, 3, 3), -0.1), [0, 1], "images must be in"),
        (np.zeros((2, 3, 3)), [0, 1, 2], "images must be as many as labels, 3, but there are 2"),
        (np.zeros((2, 3, 3)), [0, -1], r"labels must be whole numbers in 0\.\..*range over -1\.\.0"),
        (
            np.zeros((2, 3, 3)),
            [0, 0.5],
            r"labels must be whole numbers, but some are fractions \(the first is 0\.5\); write whole",
        ),
        (np.zeros((2, 3, 3)), [0, np.nan], r"labels must be numbers, but 1 of 2 are NaN .*the first at \[1\]"),
        (
            np.zeros((2, 28, 28, 3)),
            [0, 1],
            r"images must be \[N, C, H, W\], but \[2, 28, 28, 3\] looks like \[N, H, W, C\]",
        ),
        (np.zeros((2, 24, 28, 4)), [0, 1], r"looks like \[N, H, W, C\]; write images\.transpose\(0, 3, 1, 2\)"),
        (np.zeros((2, 28, 28, 1), np.uint8), [0, 1], r"looks like \[N, H, W, C\]"),
        (np.zeros((2, 3, 3)), [[0], [1]], r"labels must have one dimension, but has the shape \[2, 1\]$"),
        (np.zeros((2, 3, 3)), [[0, 1], [1, 0]], r"the shape \[2, 2\]; write labels\.argmax\(1\) if each row marks its"),
        (np.zeros((2, 3, 3)), [-1, 1], r"labels must be whole numbers in 0\.\.2147483647, .* -1\.\.1; count from 0$"),
        (np.zeros((0, 3, 3)), [], "labels is empty"),
        (np.zeros((2, 3, 3)), np.array([1j, 2j]), "labels must be whole numbers or text, but is complex128"),
        (np.zeros((2, 3, 3)), np.array([b"a", b""]), "printable characters, but that of sample 1 is ''"),
        (np.zeros((2, 3, 3)), np.array([b"a", b"b\n"]), r"but that of sample 1 is 'b\\n'"),
        (np.zeros((2, 3, 3)), np.array([b"a", b"\xff"]), "labels must be text in UTF-8, but some is not"),
        (np.zeros((2, 3, 3)), np.array([b"a", b"b" * 101]), "text of 1 to 100 printable characters"),
    ],
)
def test_wrong_images_are_named(write, images, labels, says):
    refused(read_image_file, write(images=images, labels=labels), says)


@pytest.mark.parametrize(
    "shape", [(2, 3, 5, 6), (2, 1, 28, 28), (2, 3, 3, 3), (2, 64, 128, 1), (2, 4, 9, 3), (2, 9, 4, 3), (2, 8, 12, 4)]
)
def test_shapes_that_may_be_channels_first_are_taken(write, shape):
    assert read_image_file(write(images=np.zeros(shape, np.uint8), labels=[0, 1])).values.shape == shape


def test_a_missing_array_is_named(write):
    refused(read_image_file, write(labels=[1], pictures=[1]), "must hold an array images, but holds labels, pictures")


# ---- Spikes


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, ">i2"])
def test_spikes_of_any_type(write, dtype):
    values = np.random.default_rng(0).integers(0, 2, (3, 4, 2, 5)).astype(dtype)
    frames = read_spike_file(write(spikes=values, labels=[2, 0, 1]))
    assert (frames.steps, frames.shape, frames.labels.tolist()) == (4, (2, 5), [2, 0, 1])
    assert np.array_equal(frames.batch(torch.arange(3))[0].numpy(), values.swapaxes(0, 1).astype(float))


@pytest.mark.parametrize(
    ("spikes", "says"),
    [
        (np.zeros((2, 3)), r"spikes must be \[N, T, \.\.\.\]"),
        (np.full((2, 3, 1), 256), r"spikes must be whole numbers in 0\.\.255, but range over 256\.\.256"),
        (np.full((2, 3, 1), -1), "spikes must be whole numbers in"),
        (np.full((2, 3, 1), 0.5), "spikes must be whole numbers, but some are fractions"),
        (np.full((2, 3, 1), np.nan), "spikes must be numbers, but 6 of 6 are NaN"),
        (np.full((2, 3, 1), 1 + 1j), "spikes must be whole numbers, but is complex128"),
        (np.zeros((3, 3, 1)), "spikes must be as many as labels, 2, but there are 3"),
    ],
)
def test_wrong_spikes_are_named(write, spikes, says):
    refused(read_spike_file, write(spikes=spikes, labels=[0, 1]), says)


# ---- Events


@given(st.integers(0, 99), st.sampled_from(["s", "ms", "us"]), st.booleans(), st.sampled_from(list(WRITERS)))
def test_events_are_sorted_and_start_at_zero(tmp_path_factory, seed, unit, whole, name):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, 5)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ticks = rng.integers(-50, 50, offsets[-1])
    scale = {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
    t = ticks if whole else ticks / 4
    x = np.arange(len(t), dtype=np.uint16)
    arrays = {"t": t, "x": x, "offsets": offsets, "labels": np.arange(5)}
    events = read_event_file(WRITERS[name](tmp_path_factory.mktemp("e") / name, **arrays), time_unit=unit)
    for row, (start, end) in enumerate(pairwise(offsets)):
        order = sorted(range(start, end), key=lambda at: round(float(t[at]) * scale))  # sorted() is stable
        times = [round(float(t[at]) * scale) for at in order]
        assert events.x[start:end].tolist() == order
        assert events.t[start:end].tolist() == [time - times[0] for time in times]
        assert events.labels[row] == row
    assert events.t.dtype == np.int64
    assert (events.y, events.p, events.sensor) == (None, None, (max(len(t), 1),))


def test_all_columns_are_read(write):
    arrays = event_arrays()
    events = read_event_file(write(**arrays))
    first = np.repeat(arrays["t_us"][arrays["offsets"][:-2]], 20)
    assert np.array_equal(events.t, arrays["t_us"] - first)
    for name in ("x", "y", "p", "offsets", "labels"):
        assert np.array_equal(getattr(events, name), arrays[name])
    assert events.sensor == (arrays["y"].max() + 1, arrays["x"].max() + 1)
    assert events.x.dtype == np.uint8, "no more bytes than in the file"


def test_other_types_become_what_events_hold(write):
    half = np.array([0, 0.5, 0.75], np.float16)  # times a million is beyond float16
    arrays = {"t": half, "x": np.array([1, 300, 2], ">i2"), "offsets": [0, 3], "labels": [0]}
    events = read_event_file(write(**arrays), time_unit="s")
    assert events.t.tolist() == [0, 500_000, 750_000]
    assert events.x.tolist() == [1, 300, 2]
    assert events.x.dtype == np.int16
    assert events.x.dtype.isnative


def test_the_order_of_all_columns_moves_together(write):
    arrays = event_arrays(samples=2, events_each=9)
    mixed = np.random.default_rng(1).permutation(9)
    shuffled = arrays | {name: arrays[name][mixed] for name in ("t_us", "x", "y", "p")}
    one, other = read_event_file(write(**arrays)), read_event_file(write(**shuffled))
    assert len(set(one.t.tolist())) == 9, "no ties, or the order is not the same"
    for name in ("t", "x", "y", "p"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_polarity_in_other_words(write, dtype):
    arrays = event_arrays()
    signs = arrays["p"].astype(dtype) if dtype is bool else (arrays["p"].astype(dtype) * 2 - 1).astype(dtype)
    assert np.array_equal(read_event_file(write(**(arrays | {"p": signs}))).p, arrays["p"])


def test_the_sensor_can_be_given(write):
    path = write(**event_arrays(side=6))
    assert read_event_file(path, sensor=(34, 34)).sensor == (34, 34)
    refused(lambda p: read_event_file(p, sensor=(34, 5)), path, r"sensor must be \[height, width\], at least \[6, 6\]")
    refused(
        lambda p: read_event_file(p, sensor=(34,)),
        path,
        r"but is \[34\]: these events have x and y; give data.sensor = \[6, 6\]",
    )


def test_the_unit_must_be_known(write):
    path = write(**event_arrays(unit="t"))
    refused(read_event_file, path, "time_unit must say what t is in")
    refused(lambda p: read_event_file(p, time_unit="ns"), path, "time_unit must say what t is in.*'ns'")
    path = write(**event_arrays())
    assert read_event_file(path, time_unit="us").t.max() > 1000
    refused(lambda p: read_event_file(p, time_unit="ms"), path, "t_us is in microseconds, but time_unit is 'ms'")


GOOD = event_arrays(samples=3, events_each=4)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"x": GOOD["x"][1:]}, "x must be as many as t, 8, but there are 7"),
        ({"y": GOOD["y"][1:]}, "y must be as many as t, 8"),
        ({"p": GOOD["p"][1:]}, "p must be as many as t, 8"),
        ({"x": GOOD["x"].astype(int) - 9}, "x must be whole numbers in 0"),
        ({"y": GOOD["y"] + 0.5}, "y must be whole numbers, but some are fractions .*; round them$"),
        ({"x": GOOD["x"].astype("S")}, r"x must be whole numbers, but is text; write x\.astype\('int64'\)$"),
        ({"x": np.full(len(GOOD["x"]), b"left")}, "x must be whole numbers, but is text; give numbers$"),
        ({"p": np.full(len(GOOD["p"]), 2)}, r"p must be whole numbers in -1\.\.1, but range over 2\.\.2; write p > 0$"),
        ({"x": GOOD["x"].astype(np.uint64) + 2**40}, "x must be whole numbers in 0"),
        ({"p": [2] * 8}, r"p must be whole numbers in -1\.\.1"),
        ({"p": [-1, 0, 1, 1, 1, 1, 1, 1]}, "p must be 0 and 1, or -1 and 1"),
        ({"t_us": np.where(np.arange(8) == 3, np.nan, 1.0)}, r"t_us must be numbers, but 1 of 8 are NaN .*\[3\]"),
        ({"t_us": np.where(np.arange(8) == 3, np.inf, 1.0)}, r"t_us must be numbers, but 1 of 8 are NaN or inf"),
        ({"t_us": np.full(8, 2**62)}, "t_us must be numbers within"),
        ({"t_us": np.full(8, 2**64 - 1, np.uint64)}, "t_us must be numbers within"),
        ({"t_us": np.ones(8, bool)}, "t_us must be numbers, but is bool"),
        (
            {"t_us": np.zeros((8, 1))},
            r"t_us must have one dimension, .*; write t_us\.ravel\(\), and in offsets where each",
        ),
        (
            {"offsets": [0, 4, 8]},
            "offsets must have one more than the 3 labels, but has 3; .* the last is the number of events, 8$",
        ),
        ({"offsets": [0, 4, 8, 9]}, "offsets must rise from 0 to the number of events, 8, but go from 0 to 9"),
        ({"offsets": [1, 4, 8, 8]}, "offsets must rise from 0"),
        ({"offsets": [0, 6, 4, 8]}, r"go from 0 to 8 and fall in between \(offsets\[2\]\)$"),
        ({"offsets": [0, -4, 8, 8]}, "offsets must be whole numbers"),
        ({"offsets": [0.0, 0.5, 8, 8]}, "offsets must be whole numbers"),
        ({"labels": [0, 1]}, "offsets must have one more than the 2 labels"),
        ({"labels": [0, 1, -2]}, "labels must be whole numbers in"),
        ({"labels": None}, "must hold an array labels"),
        ({"x": None}, "must hold an array x"),
        ({"offsets": None}, "must hold an array offsets"),
    ],
)
def test_wrong_events_are_named(write, changes, says):
    path = write(**{name: array for name, array in (GOOD | changes).items() if array is not None})
    refused(read_event_file, path, says)


def test_no_events_at_all(write):
    none = np.zeros(0, np.uint8)
    events = read_event_file(write(t_us=none, x=none, y=none, offsets=[0, 0, 0], labels=[1, 2]))
    assert (len(events), events.sensor, events.t.tolist()) == (2, (1, 1), [])


# ---- Files that are not what they should be


def with_member(path, name, data):
    with zipfile.ZipFile(path, "w") as archive:
        for array, values in IMAGES.items():
            archive.writestr(f"{array}.npy", npy_bytes(values))
        archive.writestr(name, data)
    return path


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


def test_pickles_are_never_loaded(tmp_path):
    objects = io.BytesIO()
    np.lib.format.write_array_header_1_0(objects, {"descr": "|O", "fortran_order": False, "shape": (2,)})
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", npy_bytes(IMAGES["images"]))
        archive.writestr("labels.npy", objects.getvalue() + pickle.dumps([Bomb(), Bomb()]))
    refused(read_image_file, path, "labels: must be plain numbers, but is Python objects")
    assert kind_of(path) == "images"


@pytest.mark.parametrize("labels", [["b", "zwölf"], ["b", "c" * 60], np.array([b"b", b"c"])])
@pytest.mark.parametrize("packed", [None, "gzip"])
def test_text_in_hdf5_is_numbered_by_its_characters(tmp_path, labels, packed):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["images"] = IMAGES["images"]
        file.create_dataset("labels", data=labels, compression=packed)
    assert read_image_file(tmp_path / "data.h5").labels.tolist() == [0, 1]
    found = read_columns(tmp_path / "data.h5").labels.tolist()
    assert found == [one.decode() if isinstance(one, bytes) else one for one in labels]


def test_damaged_text_in_hdf5_is_refused(tmp_path):
    path = write_hdf5(tmp_path / "data.h5", images=IMAGES["images"], labels=["a", "b"])
    path.write_bytes(path.read_bytes().replace(b"GCOL", b"XCOL"))
    refused(read_image_file, path, "labels: has lists in a heap at byte .* that is none; the file is damaged")


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["a", ""], "that of sample 1 is ''"),
        (["a", "b" * 500], "labels: is text of up to 500 bytes, but at most 400 are read"),
        ([["a"], ["b"]], "labels: text must have one dimension"),
    ],
)
def test_wrong_text_in_hdf5(tmp_path, labels, says):
    refused(read_image_file, write_hdf5(tmp_path / "data.h5", images=IMAGES["images"], labels=labels), says)


def test_one_long_text_of_many_in_hdf5_is_refused_before_all_take_its_memory(tmp_path, monkeypatch):
    path = write_hdf5(tmp_path / "data.h5", images=IMAGES["images"], labels=["a"] * 99 + ["b" * 90])
    monkeypatch.setattr("bitspike.data.hdf5_files.SMALL", 8_999)
    says = "labels: is 100 texts of up to 90 bytes, 189 in all, that would take 9000 bytes in memory, but at most 8999"
    refused(read_columns, path, says)
    monkeypatch.setattr("bitspike.data.hdf5_files.SMALL", 9_000)
    assert len(read_columns(path).labels) == 100
    monkeypatch.setattr("bitspike.data.hdf5_files.SMALL", 0)
    monkeypatch.setattr("bitspike.data.hdf5_files.SPARSE", 48)  # 48 * 189 > 9000
    assert len(read_columns(path).labels) == 100
    with open_arrays(path, 4_000) as arrays, pytest.raises(ValueError, match="but at most 4000 are read"):
        arrays["labels"].read()


@pytest.mark.parametrize("letter", [b"b", "b"])
def test_text_is_measured_before_it_is_decoded(tmp_path, letter):
    """Decoded, all entries would take four bytes for each character of the longest."""
    labels = np.array([letter] * 500 + [letter * 5_000])
    path = write_npz(tmp_path / "data.npz", images=IMAGES["images"], labels=labels)
    tracemalloc.start()
    try:
        refused(read_columns, path, "text of 1 to 100 printable characters, but that of sample 500 is 'bbb")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * labels.nbytes + 2**20


def test_characters_are_counted_not_bytes(tmp_path):
    labels = np.array([("ö" * count).encode() for count in (60, 100)])
    path = write_npz(tmp_path / "data.npz", images=IMAGES["images"], labels=labels)
    assert read_columns(path).labels.tolist() == ["ö" * 60, "ö" * 100]


def test_promised_sizes_are_checked_before_they_are_allocated(tmp_path):
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (2**20, 2**20, 2**20)}
    np.lib.format.write_array_header_1_0(stream, header)
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", stream.getvalue() + bytes(99))
        archive.writestr("labels.npy", npy_bytes(IMAGES["labels"]))
    refused(read_image_file, path, r"images: its header promises .* bytes, but at most \d+ are read")


def test_limits_hold_for_what_is_really_there(write):
    path = write(**IMAGES)
    for limit in (16, 17):
        refused(
            lambda p, limit=limit: read_image_file(p, limit=limit), path, "images: its header promises .*, 18 bytes"
        )
    assert len(read_image_file(path, limit=18)) == 2


@pytest.mark.parametrize(
    "shape", [(3, 3), (2, 10, 1), (-2, -9), (2**40,)], ids=["fewer", "a few more", "negative", "more"]
)
def test_headers_that_do_not_fit_are_refused(tmp_path, shape):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
    path = with_member(tmp_path / "data.npz", "spikes.npy", stream.getvalue() + bytes(18))
    refused(read_spike_file, path, "spikes: its header promises")


def test_no_more_is_allocated_than_the_file_holds(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": (2**33,)})
    path = with_member(tmp_path / "data.npz", "spikes.npy", stream.getvalue() + bytes(18))
    refused(
        read_spike_file, path, rf"spikes: its header promises .* but at most {len(stream.getvalue()) + 18} are read"
    )


def test_too_little_memory_is_said(tmp_path, monkeypatch):
    path = write_npz(tmp_path / "data.npz", **IMAGES)

    def too_little(*_):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(array_files, "read_npy", too_little)
    refused(read_image_file, path, "images: there is not enough memory to read it .*9 TiB")


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{'descr'", b"text, not an array"])
def test_members_that_are_no_arrays_are_named(tmp_path, data):
    path = with_member(tmp_path / "data.npz", "spikes.npy", data)
    refused(read_spike_file, path, "spikes: .*damaged or cut short")


def test_a_newer_npy_is_refused(tmp_path):
    path = with_member(tmp_path / "data.npz", "spikes.npy", npy_bytes(np.zeros(3)).replace(b"NUMPY\x01", b"NUMPY\x03"))
    refused(read_spike_file, path, "spikes: must be an npy array of version 1 or 2, but is of version 3")


def test_version_two_and_columns_first(tmp_path):
    stream = io.BytesIO()
    values = np.asfortranarray(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    np.lib.format.write_array(stream, values, version=(2, 0))
    stream.seek(0)
    assert np.array_equal(read_npy(stream, len(stream.getvalue())), values)


@pytest.mark.parametrize("name", list(WRITERS))
@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_files_cut_short_are_named(tmp_path, name, share):
    path = WRITERS[name](tmp_path / name, images=np.random.default_rng(0).random((9, 30, 30)), labels=np.arange(9))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    refused(read_image_file, path, "damaged or cut short, get it again")


def test_a_flipped_bit_is_noticed(tmp_path):
    path = write_npz(tmp_path / "data.npz", images=np.random.default_rng(0).random((9, 30, 30)), labels=np.arange(9))
    data = bytearray(path.read_bytes())
    data[3000] ^= 1
    path.write_bytes(data)
    refused(read_image_file, path, "images: .*damaged or cut short")


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"PK\3\4" + bytes(99), b"\x93NUMPY" + bytes(99), b"\x89HDF\r\n\x1a\n" + bytes(99)]
)
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "data.npz").write_bytes(data)
    for read in (kind_of, read_image_file):
        refused(read, tmp_path / "data.npz", "npz or HDF5|damaged or cut short")


def test_an_encrypted_member_is_named(tmp_path):
    path = write_npz(tmp_path / "data.npz", **IMAGES)
    data = bytearray(path.read_bytes())
    for magic, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = data.find(magic)
        while place >= 0:
            struct.pack_into("<H", data, place + at, 1)
            place = data.find(magic, place + 1)
    path.write_bytes(data)
    refused(kind_of, path, "encrypted")


def test_links_to_other_files_are_not_followed(tmp_path):
    write_hdf5(tmp_path / "secret.h5", **IMAGES)
    path = write_hdf5(tmp_path / "data.h5", labels=[1, 2])
    with h5py.File(path, "a") as file:
        file["images"] = h5py.ExternalLink("secret.h5", "images")
    refused(read_image_file, path, "images must be in the file itself, but is a link")


def test_bytes_of_other_files_are_not_read(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(99))
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["labels"] = [1, 2]
        file.create_dataset("images", (2, 3, 3), np.uint8, external=[("secret", 0, 18)])
    refused(read_image_file, path, "images must be in the file itself")


def test_arrays_are_listed_with_what_their_headers_say(write):
    with open_arrays(write(a=np.zeros((2, 3), np.float32), b=np.arange(5, dtype=np.uint8))) as arrays:
        assert {name: (stored.shape, stored.dtype.name) for name, stored in arrays.items()} == {
            "a": ((2, 3), "float32"),
            "b": ((5,), "uint8"),
        }


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        kind_of(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"t,x,label\n", r"begins with b't,x,labe'; .* \(docs: how-to, write an event file from CSV\)$"),
        ("a.npz", b"", "must be an npz or HDF5 file, but is empty; numpy.savez writes an npz file$"),
    ],
)
def test_files_of_another_format_say_what_to_write(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    refused(kind_of, tmp_path / name, says)
