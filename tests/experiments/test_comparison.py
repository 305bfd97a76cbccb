"""Digests and differences of experiments: what decides a run's numbers, and what does not."""

import numpy as np
import pytest

from bitspike.data.datasets import open_dataset
from bitspike.experiments.comparison import (
    _deciding,
    _digest,
    differences,
    identity,
    network_digest,
    settings_digest,
)
from bitspike.experiments.schema import experiment, read_experiment, with_values
from helpers.experiments import MINIMAL

TOML = """
[data]
file = "own.npz"
[net]
notation = "6-9-3"
beta = 0.9
slope = 1.5
theta = 1.0
clip = 0.1
[train]
lr = 0.01
half_period = 50
"""


@pytest.fixture
def home(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "own.npz", spikes=rng.random((60, 12, 6)) < 0.3, labels=np.arange(60) % 3)
    (tmp_path / "own.toml").write_text(TOML)
    return tmp_path


def spec_of(home, *settings):
    return read_experiment(home / "own.toml", settings)


def test_a_digest_of_before_stays():
    """Fields at their defaults are no part of a run's digest, so that runs of before are still recognised."""
    spec = experiment(MINIMAL, "here")
    added = with_values(spec, ["net.delays=0", "net.readout=spikes", "net.dense_norm=false", "net.spike_dropout=0.0"])
    assert network_digest(added) == network_digest(spec)
    assert network_digest(with_values(spec, ["net.delays=1"])) != network_digest(spec)


@pytest.mark.parametrize("setting", ["data.class_names=['cat','cow','dog']", "data.time_origin=first"])
def test_names_and_a_default_that_is_written_out_change_no_digest(home, setting):
    plain, other = spec_of(home), spec_of(home, setting)
    assert other != plain
    assert settings_digest(other) == settings_digest(plain)
    assert differences(plain, other) == []


def test_another_time_origin_is_another_experiment(home):
    plain, other = spec_of(home, "data.time_origin=first"), spec_of(home, "data.time_origin=zero")
    assert settings_digest(other) != settings_digest(plain)
    assert differences(plain, other) == ["data.time_origin was None, is 'zero'"]


def test_scaled_recurrent_weights_are_another_network(home):
    """Behind a batch norm 1-bit recurrent weights were -1 and +1 before; nothing else changed."""
    for settings, changed in (
        (["net.recurrent=true", "net.dense_norm=true"], True),
        (["net.recurrent=true"], False),
        (["net.dense_norm=true"], False),
        (["net.recurrent=true", "net.dense_norm=true", "net.binary=false", "net.clip=none"], False),
    ):
        spec = spec_of(home, *settings)
        assert (network_digest(spec) != _digest([_deciding(spec)["net"], spec.train.precision])) == changed


@pytest.mark.parametrize(
    ("settings", "as_before"),
    [
        (["net.recurrent=true"], False),
        (["net.recurrent=true", "net.binary=false", "net.clip=none"], True),
        (["net.recurrent=false"], True),
    ],
)
def test_a_checkpoint_with_another_recurrent_gradient_is_not_resumed(home, settings, as_before):
    """Only 1-bit recurrent weights had another gradient before, so only their checkpoints are refused."""
    spec = spec_of(home, *settings)
    data = open_dataset(spec.data, seed=0)
    before = _digest([_deciding(spec), data.edition])
    assert (identity(spec, data) == before) == as_before
