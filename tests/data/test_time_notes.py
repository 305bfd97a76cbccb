"""Notes about the unit of time: told where samples are unusually long or short, and nothing else tells it."""

import numpy as np
import pytest

from bitspike.data.mistakes import findings
from bitspike.data.profiles import profile
from bitspike.data.time_notes import time_notes
from bitspike.data.torch_datasets import dataset_from_torch
from helpers.files import write_npz


def lasting(ms):
    events = np.zeros(50, [("t", "f8"), ("x", "i2")])
    events["t"], events["x"] = np.linspace(0, ms, 50), np.arange(50) % 5
    return profile(dataset_from_torch([(events, row % 2) for row in range(20)], time_unit="ms"))


@pytest.mark.parametrize(
    ("ms", "lasts"),
    [(2, "2 ms"), (9.9, "9.9 ms"), (10, None), (400, None), (60_000, None), (400_000, "400 s"), (600_000, "600 s")],
)
def test_durations_that_are_unusual_are_noted(ms, lasts):
    wanted = (
        []
        if lasts is None
        else [f"the median training sample lasts {lasts}; if it does not, data.time_unit is another"]
    )
    assert time_notes(lasting(ms)) == wanted


@pytest.mark.parametrize("ms", [0.5, 700_000])
def test_a_warning_needs_no_note(ms):
    assert time_notes(lasting(ms)) == []
    assert any("time too" in finding.cause for finding in findings(lasting(ms)))


def test_data_info_and_train_note_it_where_bins_are_found(workplace, cli):
    t = np.tile(np.linspace(0, 400_000, 50), 20)  # microseconds that are called milliseconds
    write_npz(
        workplace / "a.npz", t=t, x=np.tile(np.arange(50) % 5, 20), offsets=np.arange(21) * 50, labels=np.arange(20) % 2
    )
    toml = workplace / "mine.toml"
    data = '[data]\nfile = "a.npz"\ntime_unit = "ms"\nrepeat = 1\n'
    toml.write_text(f"{data}[net]\nhidden = [4]\n[train]\nepochs = 1\ntensorboard = false\n")
    note = "the median training sample lasts 400 s; if it does not, data.time_unit is another"
    assert note in cli("data", "info", str(toml))[1]
    assert note in "".join(cli("train", str(toml), "--device", "cpu")[1:])
    assert note not in cli("data", "info", str(toml), "--set", "bin_ms=4000")[1]
