"""Learning rates of kinds of parameters: the groups of the optimizer, and the rates over time."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import build
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.nn import Delay
from bitspike.train.config import Rates, TrainConfig
from bitspike.train.learning_rates import group_rates, make_rate
from bitspike.train.optim import make_optimizer, parameter_groups
from helpers import runs

SOME = Rates(norms=0.002, delays=0.5, decays=0.01)


def network():
    net = build("2Conv3-18Dense4-4Dense3", (1, 5, 5), norm="shared", learn_beta=True, recurrent=True)
    net.layers[1].delay = Delay(18, 5)
    return net


def names(net, members):
    by_id = {id(p): name for name, p in net.named_parameters()}
    return [by_id[id(p)] for p in members]


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_without_the_table_there_is_one_group_of_all(optimizer):
    net = network()
    (group,) = parameter_groups(net, TrainConfig(lr=0.1, optimizer=optimizer))
    assert names(net, group.members) == [name for name, _ in net.named_parameters()]
    assert (group.lr, group.weight_decay) == (0.1, None)


def test_each_kind_has_its_group():
    net = network()
    plain, *own = parameter_groups(net, TrainConfig(lr=0.1, rates=SOME))
    found = [(names(net, group.members), group.lr) for group in own]
    assert found == [
        (["layers.0.norm.weight", "layers.0.norm.bias"], 0.002),
        (["layers.1.delay.delays"], 0.5),
        ([f"layers.{i}.lif.beta_logit" for i in range(3)], 0.01),
    ]
    rest = {name for name, _ in net.named_parameters()} - {name for group, _ in found for name in group}
    assert set(names(net, plain.members)) == rest
    assert plain.lr == 0.1


def test_a_kind_without_a_rate_stays_with_the_others():
    net = network()
    plain, own = parameter_groups(net, TrainConfig(lr=0.1, rates=Rates(delays=0.5)))
    assert names(net, own.members) == ["layers.1.delay.delays"]
    assert "layers.0.norm.weight" in names(net, plain.members)


def test_adamw_decays_only_weights_of_any_group():
    net = network()
    config = TrainConfig(lr=0.1, rates=SOME, optimizer="adamw", weight_decay=0.25)
    decayed, plain, *own = parameter_groups(net, config)
    assert {name.rpartition(".")[2] for name in names(net, decayed.members)} == {"weight"}
    assert (decayed.weight_decay, plain.weight_decay) == (0.25, 0.0)
    assert [(group.lr, group.weight_decay) for group in own] == [(0.002, 0.0), (0.5, 0.0), (0.01, 0.0)]


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_the_optimizer_moves_each_group_at_its_rate(optimizer):
    net = network()
    config = TrainConfig(lr=0.125, rates=Rates(delays=0.5), optimizer=optimizer, eps=1e-30)
    made = make_optimizer(net, config)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    made.step()
    for name, p in net.named_parameters():
        step = 0.5 if name.endswith("delays") else 0.125
        kept = 1 - step * 0.01 if optimizer == "adamw" and p.dim() > 1 else 1
        torch.testing.assert_close(p.detach(), before[name] * kept - step, rtol=1e-6, atol=1e-6)


def test_rates_on_the_device_are_read_by_their_groups():
    net = network()
    config = TrainConfig(lr=0.1, rates=Rates(delays=0.5))
    rates = [torch.tensor(0.0), torch.tensor(0.25)]
    made = make_optimizer(net, config, *rates)
    assert [group["lr"] for group in made.param_groups] == rates
    with pytest.raises(ValueError, match="shorter"):
        make_optimizer(net, config, rates[0])


@given(
    st.sampled_from([{}, {"half_period": 30}, {"schedule": "decay", "warmup": 0.2}]),
    st.floats(1e-4, 10),
    st.integers(0, 100),
)
def test_a_groups_rate_follows_the_schedule_of_lr(schedule, start, step):
    config = TrainConfig(lr=0.02, **schedule)
    plain, own = group_rates(config, [0.02, start], 100)
    assert plain(step) == make_rate(config, 100)(step)
    assert own(step) == pytest.approx(start * make_rate(config, 100)(step) / 0.02, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("kind", "says"), [("norms", "no batch norm"), ("delays", "no delays"), ("decays", "no learnt decays")]
)
def test_a_rate_of_what_the_network_has_not_is_refused(kind, says):
    with pytest.raises(ValueError, match=rf"train.rates.{kind}: the network has {says} .*; leave it out"):
        parameter_groups(build("4-3"), TrainConfig(lr=0.1, rates=Rates(**{kind: 0.1})))


def test_rates_are_set_in_files_and_by_hand(tmp_path):
    path = runs.write_experiment(tmp_path)
    spec = read_experiment(path)
    assert spec.train.rates is None
    assert with_values(spec, ["train.rates.norms=0.5"]).train.rates == Rates(norms=0.5)
    path.write_text(path.read_text() + "[train.rates]\nnorms = 0.25\n")
    assert read_experiment(path).train.rates == Rates(norms=0.25)
    assert read_experiment(path, ["train.rates.decays=0.5"]).train.rates == Rates(norms=0.25, decays=0.5)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("train.rates.delay=0.5", "no field is named 'train.rates.delay'; did you mean 'train.rates.delays'?"),
        ("train.rates.norms=0", "train.rates.norms: must be greater than 0, but is 0"),
        ("train.rates=0.5", "train.rates: must be a table, but is 0.5"),
    ],
)
def test_a_wrong_rate_is_one_line(tmp_path, setting, says):
    spec = read_experiment(runs.write_experiment(tmp_path))
    with pytest.raises(ValueError, match=f"^{re.escape(f'--set {setting}: {says}')}$"):
        with_values(spec, [setting])
