"""Networks with delays and a membrane readout as experiments: built from a file, trained, resumed, loaded, refused."""

import json

import numpy as np
import pytest
import torch

from bitspike import load_run
from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import build_network, check_fit
from bitspike.experiments.schema import as_toml, read_experiment, with_values
from bitspike.nn import LeakyReadout
from helpers.runs import EVERY_ITERATION, arguments, require_equal, start

TOML = """
[data]
file = "own.npz"
[net]
notation = "6-9-8-3"
beta = [{low = 0.6, high = 0.97}, {low = 0.5, high = 0.9}, 0.95]
slope = 1.5
surrogate = "arctan"
theta = 1.0
clip = 0.1
dense_norm = true
spike_dropout = [0.3, 0.2]
delays = 5
readout = "membrane"
[train]
epochs = 3
batch = 8
lr = 0.01
half_period = 50
loss = "cross_entropy"
tensorboard = false
"""


@pytest.fixture
def home(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "own.npz", spikes=rng.random((60, 12, 6)) < 0.3, labels=np.arange(60) % 3)
    (tmp_path / "own.toml").write_text(TOML)
    return tmp_path


def spec_of(home, *settings):
    return read_experiment(home / "own.toml", settings)


def test_every_field_reaches_the_network(home):
    net = build_network(spec_of(home), (6,))
    assert [layer.delay.longest for layer in net.layers] == [5, 5, 5]
    assert [layer.norm.num_features for layer in net.layers] == [9, 8, 3]
    assert [layer.spike_dropout and layer.spike_dropout.p for layer in net.layers] == [None, 0.3, 0.2]
    assert [layer.lif.beta.shape for layer in net.layers] == [(9,), (8,), ()]
    assert isinstance(net.layers[-1].lif, LeakyReadout)
    one = build_network(spec_of(home, "net.beta={low=0.25,high=0.5}", "net.spike_dropout=0.1", "net.delays=0"), (6,))
    assert all(0.25 <= layer.lif.beta.min() <= layer.lif.beta.max() <= 0.5 for layer in one.layers)
    assert [layer.delay for layer in one.layers] == [None] * 3


def test_the_defaults_are_the_networks_of_before(home):
    plain = ["net.beta=0.9", "net.dense_norm=false", "net.spike_dropout=0", "net.delays=0", "net.readout=spikes"]
    net = build_network(spec_of(home, *plain), (6,))
    assert list(net.state_dict()) == [
        f"layers.{i}.{name}"
        for i in range(3)
        for name in ("synapse.weight", "synapse.bias", "lif.theta", "lif.theta_grad", "lif._beta")
    ]


def test_an_experiment_is_written_and_read_again(home):
    spec = spec_of(home)
    (home / "again.toml").write_text(as_toml(spec))
    again = read_experiment(home / "again.toml")
    assert again.net == spec.net
    assert (again.net.beta[0].low, again.net.beta[0].high) == (0.6, 0.97)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("net.delays=-1", "net.delays: must be greater than or equal to 0, but is -1"),
        ("net.delays=1.5", "net.delays: must be a whole number"),
        ("net.delays=true", "net.delays: must be a number, but is True"),
        ("net.readout=volts", "net.readout: must be 'spikes' or 'membrane', but is 'volts'"),
        ("net.dense_norm=yes", "net.dense_norm: must be true or false"),
        ("net.spike_dropout=1", "net.spike_dropout: must be less than 1, but is 1"),
        ("net.beta={low=0.9,high=0.5}", "low must be <= high, but they are 0.9 and 0.5"),
        ("net.beta={low=0.9}", "net.beta.high is missing"),
        ("net.beta={low=0.9,hihg=1}", "no field is named 'net.beta.hihg'; did you mean 'net.beta.high'?"),
        ("net.beta=[0.5,{low=-1,high=1},0.5]", "net.beta.1.low: must be greater than or equal to 0, but is -1"),
    ],
)
def test_wrong_fields_are_one_line(home, setting, says):
    with pytest.raises(ValueError, match=r".") as caught:
        spec_of(home, setting)
    assert str(caught.value).startswith(f"--set {setting}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def dataset(spec):
    return open_dataset(spec.data, seed=0)


def test_delays_on_images_are_refused_before_training(home):
    np.savez(home / "own.npz", images=np.zeros((30, 4, 4), np.uint8), labels=np.arange(30) % 3)
    spec = with_values(spec_of(home), ["net.notation=16-9-8-3"])
    data = dataset(spec)
    net = build_network(spec, data.shape)
    with pytest.raises(ValueError, match=r"net\.delays needs samples with time steps of their own, but .* set it to 0"):
        check_fit(spec, net, data)
    static = with_values(spec, ["net.delays=0"])
    check_fit(static, build_network(static, data.shape), data)


@pytest.mark.parametrize(("delays", "longest"), [("65535", 65535), ("64", 64), ("[0,64,3]", 64)])
def test_long_delays_beyond_a_sample_are_refused_before_training(home, cli, delays, longest):
    status, _, err = cli("train", home / "own.toml", "--out", home / "run", f"--set=net.delays={delays}")
    assert status != 0
    assert f"net.delays must be at most 63 here, but goes up to {longest}: a sample of " in err
    assert "has 12 time bins" in err
    assert not (home / "run").exists()


def test_short_delays_may_be_longer_than_a_sample(home):
    """They cost little, and a spike that comes too late is silence."""
    spec = spec_of(home, "net.delays=63")
    data = dataset(spec)
    check_fit(spec, build_network(spec, data.shape), data)


def test_a_membrane_readout_needs_a_loss_of_scores(home):
    spec = spec_of(home, "train.loss=count")
    data = dataset(spec)
    with pytest.raises(
        ValueError, match=r"train\.loss = 'count' needs output spikes, .* 'cross_entropy', or net\.readout"
    ):
        check_fit(spec, build_network(spec, data.shape), data)


def test_a_run_is_killed_resumed_evaluated_and_loaded(home, cli):
    def launch(name, *more):
        return start(arguments(home / "own.toml", home / name, *more), home)

    ended = launch("whole").wait()
    assert ended.code == 0, ended.err
    assert "silent" not in ended.err
    child = launch("killed", *EVERY_ITERATION)
    child.wait_for((home / "killed" / "last.ckpt").is_file)
    child.kill()
    child.wait()
    ended = launch("killed", "--resume").wait()
    assert ended.code == 0, ended.err
    require_equal(home / "killed", home / "whole")

    summary = json.loads((home / "whole" / "summary.json").read_text())
    assert summary["unanswered"] == summary["dead"]["layers.2.lif"] == 0.0
    assert summary["delays"].keys() == {f"layers.{i}.delay" for i in range(3)}
    assert all(0 < mean < 5 for mean in summary["delays"].values())

    net = load_run(home / "whole")
    assert not net.training
    rounded = [layer.delay.rounded().double().mean().item() for layer in net.layers]
    assert rounded == list(summary["delays"].values())
    status, out, _ = cli("evaluate", home / "whole", "--device", "cpu")
    assert status == 0
    assert f"accuracy  {summary['accuracy']:.2%}" in out
    assert "layers.2.lif   never fires: its membrane is the answer" in out
    assert net.scores(torch.zeros(12, 2, 6)).shape == (2, 3)


def test_weights_of_another_length_of_delays_are_refused(home, cli):
    assert cli("train", home / "own.toml", "--out", home / "run", "--device", "cpu", "--epochs", "1")[0] == 0
    file = home / "run" / "experiment.toml"
    file.write_text(file.read_text().replace("delays = 5", "delays = 0"))
    with pytest.raises(ValueError, match=r"another \[net\]"):
        load_run(home / "run")
