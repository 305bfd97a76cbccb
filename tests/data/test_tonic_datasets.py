"""tonic's data sets: what stand-ins tell, and tonic's own classes on small files, where tonic is installed."""

import h5py
import numpy as np
import pytest
import torch

from bitspike.data.torch_datasets import dataset_from_torch, from_torch
from bitspike.experiments.input_rule import input_rule
from bitspike.experiments.passed import evaluate_on, train_on

XTP = [("x", "i2"), ("t", "i8"), ("p", "?")]


class Pairs(list):
    """A list of samples that has attributes, too."""


def recordings(samples=12):
    rng = np.random.default_rng(0)
    pairs = Pairs()
    for row in range(samples):
        events = np.zeros(30, XTP)
        events["t"], events["x"] = np.sort(rng.integers(0, 9_000, 30)), rng.integers(0, 4, 30)
        pairs.append((events, row % 2))
    return pairs


class Wrapped(Pairs):
    """Stands for a cache, or a SlicedDataset, around another data set."""

    def __init__(self, pairs, dataset, **attributes):
        super().__init__(pairs)
        self.dataset = dataset
        vars(self).update(attributes)


def test_class_names_may_be_bytes():
    train = recordings()
    train.classes = np.array([b"zero", b"one"], dtype="S21")  # as SHD has them
    assert dataset_from_torch(train).class_names == ("zero", "one")
    train.classes = np.array([b"\xff", b"one"])
    assert dataset_from_torch(train).class_names == ("0", "1")


def test_a_cache_without_its_data_set_has_a_name():
    assert dataset_from_torch(Wrapped(recordings(), None)).name == "Wrapped"


def test_no_split_divides_a_recording_that_was_cut_into_slices():
    slices = [(row // 4, row % 4) for row in range(12)]
    sliced = Wrapped(recordings(), recordings(3), slice_dataset_map=slices)
    for train in (sliced, Wrapped(sliced, sliced)):  # a cache of it
        data = dataset_from_torch(train, test_share=0.3)
        assert set(data.train.groups.tolist()).isdisjoint(data.test.groups.tolist())
        assert len(data.test) == 4
    subset = torch.utils.data.Subset(torch.utils.data.Subset(sliced, range(2, 12)), [9, 1, 2, 8, 7, 0])
    data = dataset_from_torch(subset, test_share=0.4)  # slices 11, 3, 4, 10, 9 and 2
    assert sorted((*data.train.groups.tolist(), *data.test.groups.tolist())) == [0, 0, 1, 2, 2, 2]
    assert set(data.train.groups.tolist()).isdisjoint(data.test.groups.tolist())
    assert dataset_from_torch(sliced, groups=["a", "b"] * 6, test_share=0.5).group_labels == ("a", "b")


def test_images_are_no_frames():
    pairs = Pairs([(np.ones((2, 5, 6)), row % 2) for row in range(4)])
    assert from_torch(pairs).shape == (5, 6)
    pairs.sensor_size = (6, 5, 2)
    with pytest.raises(
        ValueError, match=r"sample 0 is one image \[polarities, height, width\], \[2, 5, 6\], but frames"
    ):
        from_torch(pairs)
    rows = Pairs([(np.ones((1, 1, 6)), row % 2) for row in range(4)])
    rows.sensor_size = (6, 1, 1)  # a row of units has no images
    assert from_torch(rows).shape == (1, 6)


# ---- tonic itself


@pytest.fixture
def tonic():
    return pytest.importorskip("tonic", reason="tonic is not installed; run: pip install tonic")


def write_shd(folder):
    """Files of SHD's layout, 24 and 12 samples of two classes; tonic looks for the archives, but does not open them."""
    rng = np.random.default_rng(0)
    (folder / "SHD").mkdir()
    for part, samples in (("train", 24), ("test", 12)):
        (folder / "SHD" / f"shd_{part}.h5.zip").touch()
        with h5py.File(folder / "SHD" / f"shd_{part}.h5", "w") as file:
            times = file.create_dataset("spikes/times", (samples,), dtype=h5py.vlen_dtype(np.float16))
            units = file.create_dataset("spikes/units", (samples,), dtype=h5py.vlen_dtype(np.uint16))
            for row in range(samples):
                times[row] = np.sort(rng.uniform(0, 0.8, 50 + row)).astype(np.float16)
                units[row] = rng.integers(0, 700, 50 + row)
            file["labels"], file["extra/speaker"] = np.arange(samples) % 2, np.arange(samples) // 4
            file["extra/keys"] = np.array([b"zero", b"one"], dtype="S21")


def write_nmnist(folder):
    """Files of N-MNIST, one sample of each digit in training and testing."""
    rng = np.random.default_rng(0)
    for part in ("Train", "Test"):
        for digit in range(10):
            at = folder / "NMNIST" / part / str(digit)
            at.mkdir(parents=True)
            t, x, y, p = np.sort(rng.integers(0, 60_000, 80)), *rng.integers(0, 34, (2, 80)), rng.integers(0, 2, 80)
            columns = [x, y, (p << 7) | (t >> 16), (t >> 8) & 255, t & 255]
            np.stack(columns, 1).astype(np.uint8).tofile(at / "0.bin")


@pytest.fixture
def nmnist(tonic, tmp_path):
    class NMNIST(tonic.datasets.NMNIST):
        """tonic's class, without its count of 10,000 files."""

        def _check_exists(self):
            return True

    write_nmnist(tmp_path)
    return lambda train=True, **options: NMNIST(str(tmp_path), train=train, **options)


QUICK = {"net": {"hidden": [4]}, "train": {"epochs": 1, "tensorboard": False}, "data": {"repeat": 1}}


def test_tonics_shd_trains(tonic, workplace):
    write_shd(workplace)
    train, test = (tonic.datasets.SHD(str(workplace), train=part) for part in (True, False))
    data = dataset_from_torch(train, test, groups=train.speaker)
    assert (data.shape, data.class_names, len(data.train), len(data.test)) == ((700,), ("zero", "one"), 24, 12)
    assert int(data.test.tally.given.sum()) == sum(50 + row for row in range(12))
    assert data.test.left_out < 0.02
    summary = train_on(data, workplace / "run", **QUICK, say=None)
    assert evaluate_on(data, workplace / "run").result.accuracy == summary["accuracy"]
    assert input_rule(workplace / "run").class_names == ("zero", "one")


def test_tonics_cameras_train(nmnist, workplace):
    data = dataset_from_torch(nmnist(), nmnist(train=False), bin_ms=5, steps=12)
    assert (data.shape, len(data.class_names), data.name) == ((2, 34, 34), 10, "NMNIST")
    events, _ = nmnist(train=False)[0]
    step = (events["t"] - events["t"][0]) // 5_000
    wanted = torch.zeros(12, 2, 34, 34)
    wanted.index_put_(
        tuple(torch.from_numpy(column) for column in (step, events["p"], events["y"], events["x"])),
        torch.tensor(1.0),
        accumulate=True,
    )
    assert data.test[0][0].equal(wanted)
    assert train_on(
        data, workplace / "run", train={**QUICK["train"], "protocol": "paper"}, data=QUICK["data"], say=None
    )


def test_tonics_frames_caches_and_slices(tonic, nmnist, tmp_path):
    frames = tonic.transforms.ToFrame(sensor_size=(34, 34, 2), n_time_bins=6)
    samples = from_torch(nmnist(transform=frames))
    assert (samples.shape, samples.steps) == ((2, 34, 34), 6)
    assert samples[3][0].equal(torch.from_numpy(nmnist(transform=frames)[3][0].astype(np.float32)))

    plain = from_torch(nmnist(), bin_ms=5, steps=12)
    rows = torch.arange(10)
    for _ in range(2):  # written, and read again
        cached = tonic.DiskCachedDataset(nmnist(), str(tmp_path / "cache"))
        assert from_torch(cached, bin_ms=5, steps=12).batch(rows)[0].equal(plain.batch(rows)[0])
    cached = tonic.MemoryCachedDataset(nmnist())
    assert from_torch(cached, bin_ms=5, steps=12).batch(rows)[0].equal(plain.batch(rows)[0])

    sliced = tonic.SlicedDataset(nmnist(), tonic.slicers.SliceByEventCount(40))
    data = dataset_from_torch(sliced, test_share=0.3)
    assert (len(data.train) + len(data.test), data.shape) == (20, (2, 34, 34))
    assert set(data.train.groups.tolist()).isdisjoint(data.test.groups.tolist())
