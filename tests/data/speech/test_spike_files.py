"""Files of spikes: what is written is read back, by our own readers and as SHD is published."""

import h5py
import numpy as np
import pytest

from bitspike.data import Spikes
from bitspike.data.event_files import kind_of
from bitspike.data.shd import read_shd
from bitspike.data.speech.spike_files import DIGITS, as_events, read_spikes, write_spikes


def spikes(seed, many=50):
    rng = np.random.default_rng(seed)
    t = 3000 + np.sort(rng.integers(0, 500_000, many))
    return Spikes(t, rng.integers(0, 700, many).astype(np.uint16), 0.5)


@pytest.fixture
def events():
    return as_events([spikes(0), spikes(1, 0), spikes(2, 70)], [3, 0, 19])


def test_npz(tmp_path, events):
    path = write_spikes(tmp_path / "a.npz", events)
    back = read_spikes(path)
    for column in ("t", "x", "offsets", "labels"):
        assert np.array_equal(getattr(back, column), getattr(events, column)), column
    assert (back.sensor, back.y, back.p) == ((700,), None, None)
    assert kind_of(path) == "events"
    assert [each.name for each in tmp_path.iterdir()] == ["a.npz"]


def test_the_same_spikes_are_the_same_bytes(tmp_path, events):
    one, two = (write_spikes(tmp_path / name, events).read_bytes() for name in ("a.npz", "b.npz"))
    assert one == two


def test_hdf5_is_read_as_shd(tmp_path, events):
    path = write_spikes(tmp_path / "a.h5", events)
    back = read_shd(path)
    assert np.array_equal(back.x, events.x)
    assert np.array_equal(back.labels, events.labels)
    assert np.array_equal(back.offsets, events.offsets)
    assert np.abs(back.t - events.t).max() <= 250  # float16 seconds, as published
    with h5py.File(path) as file:
        assert file["spikes/times"][0].dtype == np.float16
        assert file["spikes/units"][0].dtype == np.uint16
        assert [key.decode() for key in file["extra/keys"]] == list(DIGITS)
        assert file["extra/speaker"].shape == (3,)
    assert np.array_equal(read_spikes(path).x, events.x)


def test_the_file_is_own_data_of_an_experiment(tmp_path, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "root"))
    path = write_spikes(tmp_path / "a.npz", as_events([spikes(i) for i in range(6)], [0, 1] * 3))
    from bitspike.config import validated
    from bitspike.data.config import DataConfig
    from bitspike.data.datasets import open_dataset

    config = validated(DataConfig, {"file": path, "sensor": (700,), "bin_ms": 10, "steps": 60, "downsample": 5}, "test")
    data = open_dataset(config)
    assert data.shape == (140,)


def test_another_ending_is_refused(tmp_path, events):
    with pytest.raises(ValueError, match=r"--out must end in \.npz, or in \.h5 .* but is .*a\.txt"):
        write_spikes(tmp_path / "a.txt", events)
