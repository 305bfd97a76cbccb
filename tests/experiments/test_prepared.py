"""Runs that share prepared data have the results of runs alone, and read, split and fingerprint it once."""

import gc
import weakref

import pytest

from bitspike.experiments import prepared
from bitspike.experiments import runs as experiment_runs
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.prepared import PreparedData
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment, with_values
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
        whole = getattr(prepared, name)

        def call(*args):
            found[name] += 1
            return whole(*args)

        monkeypatch.setattr(prepared, name, call)

    for name in found:
        counted(name)
    return found


def results(summary):
    return summary["results_sha256"]


def test_runs_that_share_data_equal_runs_alone(tmp_path, spec, calls):
    specs = [with_values(spec, [f"net.beta={beta}", f"seed={seed}"]) for seed, beta in enumerate((0.5, 0.75))]
    alone = [results(train_run(each, tmp_path / f"alone-{i}", RunOptions())) for i, each in enumerate(specs)]
    assert calls == {"dataset_of": 2, "samples_digests": 2}
    options = RunOptions(prepared=PreparedData())
    shared = [results(train_run(each, tmp_path / f"shared-{i}", options)) for i, each in enumerate(specs)]
    assert shared == alone
    assert calls == {"dataset_of": 3, "samples_digests": 3}


def test_other_samples_or_splits_are_prepared_apart(spec, calls):
    store, options = PreparedData(), RunOptions()
    first = store.on_device(spec, options)
    assert store.on_device(with_values(spec, ["net.beta=0.25"]), options) is first
    assert len(store.on_device(with_values(spec, ["data.train_limit=30"]), options).train) < len(first.train)
    assert "valid" not in store.on_device(with_values(spec, ["train.protocol=paper"]), options).splits
    assert calls["dataset_of"] == 3


def test_the_store_forgets_what_was_not_asked_for_lately(spec, calls):
    store, options = PreparedData(most=2), RunOptions()
    limits = [with_values(spec, [f"data.train_limit={limit}"]) for limit in (30, 40, 50)]
    for each in (limits[0], limits[1], limits[0], limits[2], limits[0]):
        store.dataset(each, options)
    assert calls["dataset_of"] == 3
    store.dataset(limits[1], options)
    assert calls["dataset_of"] == 4


def test_samples_that_a_seed_draws_are_not_shared(calls):
    store, options = PreparedData(), RunOptions()
    spec = with_values(preset("coding/annealed"), ["seed=1"])
    assert store.dataset(spec, options) is store.dataset(with_values(spec, ["net.beta=0.5"]), options)
    assert store.dataset(with_values(spec, ["seed=2"]), options) is not store.dataset(spec, options)


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
        train_run(spec, tmp_path / "out", RunOptions())
        assert held[0]() is None
    finally:
        gc.enable()
