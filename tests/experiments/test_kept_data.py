"""Runs that share data have the results of runs alone, read and fingerprint it once, and free their own memory."""

import gc
import weakref

import pytest

from bitspike.experiments import kept_data
from bitspike.experiments import runs as experiment_runs
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.kept_data import KeptData
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import RequestedRun, train_group
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.train.progress import Listener
from bitspike.train.run_folder import RunFolder
from bitspike.train.world import World
from helpers import runs


@pytest.fixture
def spec(tmp_path):
    found = read_experiment(runs.write_experiment(tmp_path))
    return with_values(found, ["train.epochs=1", "train.tensorboard=false"])


@pytest.fixture
def calls(monkeypatch):
    """Count how often data are opened and fingerprinted."""
    found = {"dataset_of": 0, "samples_digests": 0}

    def counted(name):
        whole = getattr(kept_data, name)

        def call(*args):
            found[name] += 1
            return whole(*args)

        monkeypatch.setattr(kept_data, name, call)

    for name in found:
        counted(name)
    return found


def train(spec, out, kept=None):
    """Train one run; return the digest of its results."""
    (summary,) = train_group([RequestedRun(spec, RunFolder(out), Listener())], RunOptions(), World(), kept=kept)
    return summary["results_sha256"]


def test_runs_that_share_data_equal_runs_alone(tmp_path, spec, calls):
    specs = [with_values(spec, [f"net.beta={beta}", f"seed={seed}"]) for seed, beta in enumerate((0.5, 0.75))]
    alone = [train(each, tmp_path / f"alone-{i}") for i, each in enumerate(specs)]
    assert calls == {"dataset_of": 2, "samples_digests": 2}
    kept = KeptData()
    assert [train(each, tmp_path / f"shared-{i}", kept) for i, each in enumerate(specs)] == alone
    assert calls == {"dataset_of": 3, "samples_digests": 3}


def test_other_samples_or_splits_are_kept_apart(spec, calls):
    kept, options = KeptData(), RunOptions()
    first = kept.on_device(spec, options)
    assert kept.on_device(with_values(spec, ["net.beta=0.25"]), options) is first
    assert len(kept.on_device(with_values(spec, ["data.train_limit=30"]), options).train) < len(first.train)
    assert "valid" not in kept.on_device(with_values(spec, ["train.protocol=paper"]), options).splits
    assert calls["dataset_of"] == 3


def test_samples_that_a_seed_draws_are_not_shared():
    kept, options = KeptData(), RunOptions()
    spec = with_values(preset("coding/annealed"), ["seed=1"])
    assert kept.dataset(spec, options) is kept.dataset(with_values(spec, ["net.beta=0.5"]), options)
    assert kept.dataset(with_values(spec, ["seed=2"]), options) is not kept.dataset(spec, options)


def test_a_run_that_has_ended_leaves_no_memory_to_the_garbage_collection(tmp_path, spec, monkeypatch):
    held = []
    make = experiment_runs._make_job

    def noted(*args):
        job = make(*args)
        held.append(weakref.ref(job.trainer.net))
        return job

    monkeypatch.setattr(experiment_runs, "_make_job", noted)
    gc.collect()
    gc.disable()
    try:
        train(spec, tmp_path / "out")
        assert held[0]() is None
    finally:
        gc.enable()
