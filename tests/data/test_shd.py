"""SHD: the published layout, packed or not, the compact form equal to it, and damage said in one line."""

import gzip
import lzma
import zipfile

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import shd, unpacking
from bitspike.data.shd import read_shd, read_shd_compact
from helpers.files import random_trains, trains_as_lists, write_hdf5, write_shd, write_shd_compact

LISTS = [([0.0, 0.0005, 1.0], [3, 699, 0]), ([], []), ([0.25], [7])]


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("t", "x", "offsets", "labels", "groups")
    )


@pytest.mark.parametrize("name", ["shd.h5", "shd.h5.gz", "shd.h5.zip"])
def test_published_files_packed_or_not(tmp_path, name):
    read = read_shd(write_shd(tmp_path / name, LISTS, [0, 19, 4]))
    assert read.t.tolist() == [0, round(float(np.float16(0.0005)) * 1e6), 1_000_000, 250_000]
    assert read.x.tolist() == [3, 699, 0, 7]
    assert read.offsets.tolist() == [0, 3, 3, 4]
    assert read.labels.tolist() == [0, 19, 4]
    assert (read.y, read.p, read.sensor) == (None, None, (700,))
    assert (read.t.dtype, read.offsets.dtype, read.labels.dtype) == (np.int64,) * 3


def test_the_packed_files_name_does_not_matter(tmp_path):
    packed = write_shd(tmp_path / "shd.h5.gz", LISTS, [1, 2, 3])
    plain = write_shd(tmp_path / "shd.h5", LISTS, [1, 2, 3])
    assert same(read_shd(packed.rename(tmp_path / "other.h5")), read_shd(plain))


def test_unpacking_leaves_nothing_behind(tmp_path):
    packed = write_shd(tmp_path / "shd.h5.gz", LISTS, [1, 2, 3])
    read_shd(packed, scratch=tmp_path / "cache" / "deep")
    assert [path.name for path in (tmp_path / "cache").rglob("*")] == ["deep"]


def test_times_are_rounded_to_the_nearest_microsecond(tmp_path):
    seconds = [0.0000014, 0.0000016, 0.1234567]
    read = read_shd(write_shd(tmp_path / "shd.h5", [(seconds, [1, 2, 3])], [0], times_dtype=np.float32))
    assert read.t.tolist() == [1, 2, 123457]


@given(st.integers(1, 6), st.integers(0, 60), st.integers(0, 99))
def test_blocks_of_samples_change_nothing(tmp_path_factory, block, spikes, seed):
    compact = random_trains(7, spikes=spikes, seed=seed)
    folder = tmp_path_factory.mktemp("shd")
    lists = trains_as_lists(compact)
    plain = write_shd(folder / "shd.h5", lists, compact["labels"], speakers=compact["speaker"])
    tight = write_shd_compact(folder / "shd.npz.xz", compact)
    seconds = np.concatenate([times for times, _ in lists]).astype(np.float16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shd, "BLOCK", block)
        for read in (read_shd(plain), read_shd_compact(tight)):
            assert read.t.tolist() == [round(float(time) * 1e6) for time in seconds]
            assert read.x.tolist() == [unit for _, units in lists for unit in units]
            assert np.diff(read.offsets).tolist() == [len(units) for _, units in lists]
            assert read.labels.tolist() == compact["labels"].tolist()
            assert read.groups.tolist() == compact["speaker"].tolist()
            assert read.sensor == (700,)


# ---- Speakers


def test_speakers_are_the_groups(tmp_path):
    published = read_shd(write_shd(tmp_path / "shd.h5.gz", LISTS, [1, 2, 3], speakers=[11, 0, 4]))
    assert published.groups.tolist() == [11, 0, 4]
    trains = random_trains(3) | {"speaker": np.array([7, 7, 9], np.uint8)}
    compact = read_shd_compact(write_shd_compact(tmp_path / "shd.npz.xz", trains))
    assert compact.groups.tolist() == [7, 7, 9]
    assert (published.groups.dtype, compact.groups.dtype) == (np.int64, np.int64)


def test_files_without_speakers_are_read(tmp_path):
    path = write_shd(tmp_path / "shd.h5", LISTS, [1, 2, 3])
    with h5py.File(path, "a") as file:
        del file["extra/speaker"]
    assert read_shd(path).groups is None
    with h5py.File(path, "a") as file:
        del file["extra"]
    assert read_shd(path).groups is None
    without = {name: array for name, array in random_trains(3).items() if name != "speaker"}
    assert read_shd_compact(write_shd_compact(tmp_path / "shd.npz.xz", without)).groups is None


@pytest.mark.parametrize(
    ("speakers", "says"),
    [
        (
            np.zeros(2, np.uint16),
            r"extra/speaker must be whole numbers, one for each of 3 samples, but is uint16 \[2\]",
        ),
        (np.zeros((3, 1), np.uint16), "extra/speaker must be whole numbers, one for each of 3 samples"),
        (np.zeros(3), "extra/speaker must be whole numbers, .* but is float64"),
        (np.array([0, -1, 2]), r"extra/speaker must be in 0\.\.65535, but range over -1\.\.2"),
        (h5py.ExternalLink("secret.h5", "labels"), "extra/speaker must be in the file itself, but is a link"),
    ],
)
def test_wrong_speakers_are_named(tmp_path, speakers, says):
    write_shd(tmp_path / "secret.h5", LISTS, [4, 5, 6])
    path = write_shd(tmp_path / "shd.h5", LISTS, [1, 2, 3])
    with h5py.File(path, "a") as file:
        del file["extra/speaker"]
        file["extra/speaker"] = speakers
    with pytest.raises(ValueError, match=says) as caught:
        read_shd(path)
    assert str(caught.value).startswith(str(path))


# ---- Damage


@pytest.mark.parametrize(
    ("lists", "labels", "says"),
    [
        ([([0.1], [700])], [0], r"spikes/units must be in 0\.\.699, but range over 700\.\.700"),
        ([([-0.5, 0.1], [1, 2])], [0], "spikes/times must be in 0"),
        ([([np.nan, 0.1], [1, 2])], [0], "spikes/times must be in 0"),
        ([([np.inf, 0.1], [1, 2])], [0], "spikes/times must be in 0"),
        ([([0.1], [1]), ([0.1, 0.2], [1])], [0, 1], "sample 1 has 2 times, but 1 units"),
        ([([0.1], [1])], [20], r"labels must be in 0\.\.19, but range over 20\.\.20"),
        ([([0.1], [1])], [0, 1], "as many labels as lists"),
        ([], [], "as many labels as lists"),
    ],
)
def test_wrong_numbers_are_named(tmp_path, lists, labels, says):
    path = write_shd(tmp_path / "shd.h5", lists, labels)
    with pytest.raises(ValueError, match=says) as caught:
        read_shd(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("missing", ["spikes/times", "spikes/units", "labels", "spikes"])
def test_missing_arrays_are_named(tmp_path, missing):
    path = write_shd(tmp_path / "shd.h5", LISTS, [1, 2, 3])
    with h5py.File(path, "a") as file:
        del file[missing]
    with pytest.raises(ValueError, match=f"must hold an array {missing}"):
        read_shd(path)


def test_wrong_types_are_named(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", **{"spikes/times": np.zeros(2), "spikes/units": np.zeros(2), "labels": [0, 1]})
    with pytest.raises(ValueError, match="spikes/times must be lists of floating point numbers"):
        read_shd(path)
    path = write_shd(tmp_path / "b.h5", LISTS, [1, 2, 3], times_dtype=np.uint16)
    with pytest.raises(ValueError, match="spikes/times must be lists of floating point numbers, but is uint16"):
        read_shd(path)
    path = write_shd(tmp_path / "c.h5", LISTS, [1, 2, 3])
    with h5py.File(path, "a") as file:
        del file["labels"]
        file["labels"] = [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="labels must be whole numbers, but is float64"):
        read_shd(path)


def test_links_to_other_files_are_not_followed(tmp_path):
    path = write_shd(tmp_path / "shd.h5", LISTS, [1, 2, 3])
    write_shd(tmp_path / "secret.h5", LISTS, [4, 5, 6])
    with h5py.File(path, "a") as file:
        del file["labels"]
        file["labels"] = h5py.ExternalLink("secret.h5", "labels")
    with pytest.raises(ValueError, match="labels must be in the file itself, but is a link"):
        read_shd(path)


def test_links_of_a_folder_are_not_followed(tmp_path):
    path = write_shd(tmp_path / "shd.h5", LISTS, [1, 2, 3])
    write_shd(tmp_path / "secret.h5", LISTS, [4, 5, 6])
    with h5py.File(path, "a") as file:
        del file["spikes"]
        file["spikes"] = h5py.ExternalLink("secret.h5", "spikes")
    with pytest.raises(ValueError, match="spikes/times must be in the file itself"):
        read_shd(path)


@pytest.mark.parametrize("name", ["shd.h5", "shd.h5.gz", "shd.h5.zip"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_files_cut_short_are_named(tmp_path, name, share):
    path = write_shd(tmp_path / name, LISTS, [1, 2, 3])
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ValueError, match="damaged or cut short, get it again") as caught:
        read_shd(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_damaged_checksum_is_noticed(tmp_path):
    path = write_shd(tmp_path / "shd.h5.gz", LISTS, [1, 2, 3])
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="damaged or cut short"):
        read_shd(path)


@pytest.mark.parametrize("data", [b"", b"not an HDF5 file"])
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "shd.h5").write_bytes(data)
    with pytest.raises(ValueError, match=r"must be an HDF5 file, plain or as \.gz or \.zip"):
        read_shd(tmp_path / "shd.h5")


def test_an_archive_must_hold_one_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "shd.zip", "w") as archive:
        archive.writestr("a.h5", b"")
        archive.writestr("b.h5", b"")
    with pytest.raises(ValueError, match=r"must hold one \.h5 file, but holds 2"):
        read_shd(tmp_path / "shd.zip")


def test_unpacking_has_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(shd, "MOST_BYTES", 2**20)
    path = tmp_path / "bomb.h5.gz"
    path.write_bytes(gzip.compress(bytes(2**22)))
    with pytest.raises(ValueError, match="must unpack to at most 1048576 bytes"):
        read_shd(path, scratch=tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []
    path.write_bytes(lzma.compress(bytes(2**22)))
    with pytest.raises(ValueError, match="must unpack to at most 1048576 bytes"):
        read_shd_compact(path)


def test_the_number_of_spikes_has_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(shd, "MOST_SPIKES", 3)
    with pytest.raises(ValueError, match="spikes/times: must be at most 3 numbers"):
        read_shd(write_shd(tmp_path / "shd.h5", LISTS, [1, 2, 3]))


def test_a_full_disk_is_not_called_damage(tmp_path, monkeypatch):
    path = write_shd(tmp_path / "shd.h5.gz", LISTS, [1, 2, 3])

    def full(source, out, most):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unpacking, "_copy", full)
    with pytest.raises(OSError, match="no space left on device; free some space"):
        read_shd(path, scratch=tmp_path / "scratch")


def test_a_missing_file_is_the_systems_error(tmp_path):
    for read in (read_shd, read_shd_compact):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none.h5")


# ---- Damage to the compact form

GOOD = random_trains(3, spikes=10)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"isi": None}, "must hold the arrays counts, isi, labels and tick_ms, but has no isi"),
        ({"counts": GOOD["counts"][:, :699]}, r"counts \[N, 700\].* must be unsigned, but are uint8 \[3, 699\]"),
        ({"counts": GOOD["counts"].astype(np.float32)}, "must be unsigned, but are float32"),
        ({"isi": GOOD["isi"].astype(np.int16)}, "must be unsigned"),
        ({"isi": GOOD["isi"].astype(np.uint64)}, "at most 16 bits"),
        ({"isi": GOOD["isi"][:-1]}, "counts add up to 20 spikes, but isi has 19"),
        ({"labels": GOOD["labels"][:2]}, "labels must be as many as counts, 3"),
        ({"labels": GOOD["labels"] + np.uint8(19)}, r"labels must be in 0\.\.19, but range over 19\.\.21"),
        (
            {"speaker": GOOD["labels"][:2]},
            r"speaker must be whole numbers, one for each of 3 samples, but is uint8 \[2\]",
        ),
        ({"tick_ms": np.float32(0)}, r"tick_ms must be one number in \(0, 1000\]"),
        ({"tick_ms": np.float32(np.nan)}, r"tick_ms must be one number in \(0, 1000\]"),
        ({"tick_ms": np.float32([1, 2])}, r"tick_ms must be one number in \(0, 1000\]"),
        ({"isi": np.full(20, 65535, np.uint16), "tick_ms": np.float32(1000)}, "times must be at most 60000 s"),
        (
            {
                "counts": np.pad(np.array([[300]] * 3, np.uint16), ((0, 0), (0, 699))),
                "isi": np.full(900, 65535, np.uint16),
            },
            "times must be less than 16777216 ticks, but one is 19660500",
        ),
        ({"isi": np.array([{}] * 20, dtype=object)}, "isi: must be plain numbers, but is Python objects"),
    ],
)
def test_wrong_compact_arrays_are_named(tmp_path, changes, says):
    arrays = {name: array for name, array in (GOOD | changes).items() if array is not None}
    path = write_shd_compact(tmp_path / "shd.npz.xz", arrays)
    with pytest.raises(ValueError, match=says) as caught:
        read_shd_compact(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize("how", ["cut", "not xz", "not npz", "npz cut"])
def test_damaged_compact_files_are_named(tmp_path, how):
    path = write_shd_compact(tmp_path / "shd.npz.xz", GOOD)
    whole = path.read_bytes()
    npz = lzma.decompress(whole)
    path.write_bytes(
        {
            "cut": whole[:-20],
            "not xz": b"x" * 99,
            "not npz": lzma.compress(b"x" * 99),
            "npz cut": lzma.compress(npz[:-9]),
        }[how]
    )
    with pytest.raises(ValueError, match=r"shd\.npz\.xz: ") as caught:
        read_shd_compact(path)
    assert "\n" not in str(caught.value)
