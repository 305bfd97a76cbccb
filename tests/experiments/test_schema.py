"""What a user writes into a TOML file: taken as it is meant, or refused in one line that helps; and back to TOML."""

import math
import tomllib
from typing import get_args

import pytest
from hypothesis import given
from pydantic import ValidationError

from bitspike import Constant, Linear, Relax
from bitspike.config import Config
from bitspike.experiments.net_config import NetConfig
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import Experiment, as_toml, as_values, experiment, read_experiment
from helpers.experiments import MINIMAL, experiments, get, refusal, values

MNIST = preset("mnist/annealed")


# ---- Files


def test_the_smallest_experiment_and_its_defaults():
    spec = experiment(MINIMAL, "here")
    assert (spec.seed, spec.net.binary, spec.train.epochs, spec.train.protocol) == (0, True, 500, "holdout")
    assert spec.net.schedules(2) == [Constant(2.0)] * 2


@pytest.mark.parametrize("missing", ["data.", "net.notation", "net.beta", "net.slope", "net.theta", "train.lr"])
def test_what_is_missing_is_named(missing):
    table, _, field = missing.partition(".")
    given = {**MINIMAL, table: {k: v for k, v in MINIMAL[table].items() if k != field}}
    if not field:
        given = {k: v for k, v in MINIMAL.items() if k != table}
    assert refusal(experiment, given, "mine.toml") == f"mine.toml: {missing.strip('.')} is missing"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({**MINIMAL, "sede": 3}, "no field is named 'sede'; did you mean 'seed'?"),
        (values(net={"betta": 1}), "no field is named 'net.betta'; did you mean 'net.beta'?"),
        (values(train={"learning_rate": 1}), "no field is named 'train.learning_rate'; did you mean 'train.lr'?"),
        (values(data={"train_limits": 1}), "no field is named 'data.train_limits'; did you mean 'data.train_limit'?"),
        (values(net={"theta": {"start": 1, "stop": 2, "rate": 1, "tao": 1}}), "no field is named 'net.theta.tao'"),
        (values(net={"theta": [1, {"strat": 1}]}), "net.theta.1"),
        ({**MINIMAL, "paper": {"best": 1, "mean": 1, "sigma": 1, "n": 5}}, "no field is named 'paper.n'"),
        ({**MINIMAL, "net": 3}, "net: must be"),
        ({**MINIMAL, "train": []}, "train: must be"),
        ({**MINIMAL, "sources": {"net.beta": 3}}, "sources.net.beta: must be text in quotes, but is 3"),
        ({**MINIMAL, "seed": 2**32}, "seed: must be less than 4294967296"),
    ],
)
def test_wrong_fields_anywhere_are_refused(given, says):
    message = refusal(experiment, given, "mine.toml")
    assert message.startswith("mine.toml: ")
    assert says in message


def test_all_wrong_fields_are_told_at_once():
    message = refusal(experiment, values(net={"beta": 2}, train={"lr": -1, "epochs": 0}), "mine.toml")
    assert [part.split(":")[0] for part in message.removeprefix("mine.toml: ").split("; ")] == [
        "net.beta",
        "train.epochs",
        "train.lr",
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "field", ["net.beta", "net.slope", "net.theta", "net.clip", "train.lr", "train.eps", "train.grad_clip"]
)
def test_nothing_is_nan_or_infinite(field, bad):
    table, _, name = field.partition(".")
    assert f"{field}: must be" in refusal(experiment, values(**{table: {name: bad}}), "mine.toml")


def test_a_file_is_named_after_itself_and_its_paths_are_relative_to_it(tmp_path):
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "mine.toml"
    path.write_text(
        '[data]\nfile = "../train.npz"\ntest_file = "test.npz"\n'
        '[net]\nnotation = "4-2"\nbeta = 0.5\nslope = 1\ntheta = 1\n[train]\nlr = 1\nschedule = "constant"\n'
    )
    spec = read_experiment(path)
    assert spec.name == "mine"
    assert spec.data.file == (tmp_path / "train.npz").resolve()
    assert spec.data.test_file == (tmp_path / "deep" / "test.npz").resolve()


def test_absolute_paths_stay(tmp_path):
    path = tmp_path / "mine.toml"
    spec = experiment(values(data={"name": None, "file": "/somewhere/x.npz"}), "here")
    path.write_text(as_toml(spec))
    assert str(read_experiment(path).data.file) == "/somewhere/x.npz"


@pytest.mark.parametrize("content", [b"[net\n", b"a = ", b"\xff\xfe\x00", b"seed = 1\nseed = 2\n"])
def test_a_file_that_is_no_toml_says_so(tmp_path, content):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    assert refusal(read_experiment, path).startswith(f"{path} is not valid TOML: ")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_experiment(tmp_path / "mine.toml")


# ---- Frozen


@pytest.mark.parametrize("key", ["seed", "net.beta", "train.lr", "data.name", "paper.best", "net.theta.0.start"])
def test_experiments_cannot_be_changed_in_place(key):
    *path, last = key.split(".")
    holder = get(MNIST, ".".join(path)) if path else MNIST
    with pytest.raises(ValidationError, match="frozen"):
        setattr(holder, last, 1)


# ---- Thresholds


def test_the_three_ways_to_anneal():
    net = NetConfig(
        notation="4-3-2-1",
        beta=0.5,
        slope=1,
        theta=[
            {"start": 1, "stop": 2, "rate": 0.1},
            {"start": 1, "stop": 2, "tau": 10},
            {"start": 1, "stop": 2, "steps": 7},
        ],
    )
    assert net.schedules(3) == [Relax(1, 2, 0.1), Relax.from_tau(1, 2, 10), Linear(1, 2, 7)]


@pytest.mark.parametrize("count", [1, 3])
def test_thresholds_are_one_or_one_a_layer(count):
    net = NetConfig(notation="4-3-2", beta=0.5, slope=1, theta=[1.0] * count)
    says = f"net.theta must be one threshold, or one a neuron layer, 2 in '4-3-2', but has {count}"
    assert refusal(net.schedules, 2) == says


# ---- Laws


@given(experiments)
def test_toml_keeps_every_experiment_exactly(spec):
    assert experiment(tomllib.loads(as_toml(spec, "heading")), "again") == spec


@given(experiments)
def test_plain_values_keep_every_experiment_exactly(spec):
    assert experiment(as_values(spec), "again") == spec


# ---- What documentation is made from


def described(model: type[Config], prefix: str = "") -> dict[str, str | None]:
    """The description of every field of a model, by its dotted name."""
    found: dict[str, str | None] = {}
    for name, field in model.model_fields.items():
        found[prefix + name] = field.description
        for inner in configs_in(field.annotation):
            found |= described(inner, f"{prefix}{name}.")
    return found


def configs_in(annotation) -> list[type[Config]]:
    """The tables that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [config for part in get_args(annotation) for config in configs_in(part)]


def test_every_field_says_what_it_is():
    found = described(Experiment)
    assert {"seed", "data.keep", "net.theta", "net.theta.tau", "train.lr", "paper.sigma"} <= found.keys()
    silent = [key for key, text in found.items() if not (text and text[0].isupper() and text.endswith("."))]
    assert silent == []
