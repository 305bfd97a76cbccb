"""A table of probabilities as a teacher: whatever wrote it, its rows are those of the samples that train."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import runs_helper as runs
from bitspike.data.datasets import open_dataset
from bitspike.data.splits import held_out
from bitspike.files import digest
from bitspike.train.distill import tempered
from test_distill import caught, experiment, interrupting, train


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an experiment."""
    folder = tmp_path_factory.mktemp("tables")
    runs.write_experiment(folder)
    return folder


def write_table(home, path, table=None, labels=None):
    """A table for all training samples of the tiny experiment, random unless given."""
    data = open_dataset(experiment(home).data)
    given = data.train.labels.numpy() if labels is None else labels
    random = torch.randn(len(data.train), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    np.savez(path, probabilities=F.softmax(2 * random, 1).numpy() if table is None else table, labels=given)
    return data


@pytest.mark.parametrize("protocol", ["holdout", "paper"])
def test_a_table_teaches_the_samples_that_train(home, tmp_path, monkeypatch, protocol):
    data = write_table(home, tmp_path / "table.npz")
    probabilities = torch.from_numpy(np.load(tmp_path / "table.npz")["probabilities"])
    more = (f"train.protocol={protocol}", "train.precision=float64")
    trainer = caught(home, tmp_path / "run", monkeypatch, *more, teacher=tmp_path / "table.npz")
    rows = torch.arange(len(data.train))
    if protocol == "holdout":
        rows, _ = held_out(data.train.labels, 0.1, 0)
        assert len(rows) < len(data.train)
    assert torch.equal(trainer.samples.values, data.train.values[rows])
    flattened = probabilities[rows].sqrt()  # temperature 2
    torch.testing.assert_close(trainer.task.targets, flattened / flattened.sum(1, keepdim=True), rtol=1e-12, atol=0)


def test_a_table_may_be_an_hdf5_file(home, tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    write_table(home, tmp_path / "table.npz")
    with h5py.File(tmp_path / "table.h5", "w") as file, np.load(tmp_path / "table.npz") as arrays:
        file["probabilities"], file["labels"] = arrays["probabilities"].astype(np.float16), arrays["labels"]
    one, two = (
        caught(home, tmp_path / name, monkeypatch, teacher=tmp_path / f"table.{name}").task.targets
        for name in ("npz", "h5")
    )
    torch.testing.assert_close(one, two, rtol=2e-3, atol=2e-4)
    torch.testing.assert_close(two.sum(1), torch.ones(len(two)))


def test_a_run_says_which_table_taught_it_and_goes_on_with_no_other(home, tmp_path):
    table = tmp_path / "table.npz"
    data = write_table(home, table, np.eye(3)[open_dataset(experiment(home).data).train.labels])  # sure, and right
    assert train(home, tmp_path / "run", teacher=table, listener=interrupting(3)) is None
    done = train(home, tmp_path / "run", teacher=table, resume=True)
    assert done["teacher"] == {"file": str(table), "train_accuracy": 1.0, "digest": digest(table)}
    assert all(np.isfinite(row["train_loss"]) for row in runs.rows(tmp_path / "run"))
    write_table(home, tmp_path / "other.npz", np.full((len(data.train), 3), 1 / 3))
    with pytest.raises(ValueError, match=r"its teacher was .*table\.npz, and .*other\.npz is another"):
        train(home, tmp_path / "run", teacher=tmp_path / "other.npz", resume=True)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (lambda n: np.full((n, 4), 0.25), "has 4 classes, but net.notation .* has 3 outputs"),
        (lambda n: np.full((n, 3), 0.5), "each row of probabilities must be 0 or more and add up to 1"),
        (lambda n: np.full((n, 3), np.nan), r"probabilities must be numbers, but \d+ of \d+ are NaN or infinite"),
        (lambda n: np.tile([1.5, -0.5, 0.0], (n, 1)), "each row of probabilities must be 0 or more and add up to 1"),
        (lambda n: np.zeros(n), r"must be floating point \[N, C\].* but are float64 \[\d+\]"),
        (lambda n: np.ones((n, 1), np.int64), r"must be floating point \[N, C\]"),
    ],
)
def test_tables_that_are_refused(home, tmp_path, table, says):
    count = len(open_dataset(experiment(home).data).train)
    write_table(home, tmp_path / "table.npz", table(count))
    with pytest.raises(ValueError, match=rf"train\.teacher: .*table\.npz.*{says}") as error:
        train(home, tmp_path / "run", teacher=tmp_path / "table.npz")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_file_for_other_samples_is_refused(home, tmp_path):
    labels = open_dataset(experiment(home).data).train.labels.numpy()
    write_table(home, tmp_path / "table.npz", labels=labels[::-1].copy())
    with pytest.raises(ValueError, match="in their order and with their labels, but has other labels"):
        train(home, tmp_path / "run", teacher=tmp_path / "table.npz")
    write_table(home, tmp_path / "table.npz", np.full((4, 3), 1 / 3), labels[:4])
    with pytest.raises(ValueError, match="in their order and with their labels, but has 4 rows"):
        train(home, tmp_path / "run", teacher=tmp_path / "table.npz")
    (tmp_path / "text.npz").write_text("no table")
    with pytest.raises(ValueError, match=r"train\.teacher: .*text\.npz: must be an npz or HDF5 file"):
        train(home, tmp_path / "run", teacher=tmp_path / "text.npz")


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.floats(0.2, 8))
def test_a_tempered_table_is_the_softmax_of_cooler_logits(logits, temperature):
    logits = torch.tensor([logits], dtype=torch.float64)
    found = tempered(F.softmax(logits, 1), temperature)
    torch.testing.assert_close(found, F.softmax(logits / temperature, 1), rtol=1e-9, atol=1e-12)
