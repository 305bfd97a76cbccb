"""`bitspike preset`, and the help texts of all commands."""

import json
import re
import tomllib

import pytest

from bitspike.experiments.presets import preset
from bitspike.experiments.schema import experiment, with_values


@pytest.fixture
def here(workplace):
    return workplace


def test_preset_list(here, cli):
    _, out, _ = cli("preset", "list")
    assert "fashion/annealed" in out
    assert "88.12  87.92   0.22" in out
    listed = json.loads(cli("preset", "list", "--json")[1])
    assert len(listed) == 35
    assert listed[4]["name"] == "mnist/float32"


def test_preset_list_as_json_has_the_papers_figures(here, cli):
    listed = {each["name"]: each for each in json.loads(cli("preset", "list", "--json")[1])}
    assert listed["fashion/annealed"]["paper"]["best"] == 88.12


def test_preset_show_is_an_experiment(here, cli):
    _, out, _ = cli("preset", "show", "shd/annealed", "--set", "train.lr=1")
    assert experiment(tomllib.loads(out), "shown") == with_values(preset("shd/annealed"), ["train.lr=1"])
    _, out, _ = cli("preset", "show", "shd/annealed", "--json")
    assert experiment(json.loads(out), "shown") == preset("shd/annealed")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["train", "evaluate", "preset", "data", "reproduce"]),
        (["train"], ["--out", "--seed", "--trials", "--epochs", "--device", "--resume", "--set", "--json", "torchrun"]),
        (["evaluate"], ["RUN", "--split", "--device", "--json"]),
        (["preset"], ["list", "show"]),
        (["data"], ["list", "fetch", "verify", "info"]),
        (["data", "fetch"], ["--from", "--json"]),
    ],
)
def test_help_names_everything(arguments, words, here, cli):
    status, out, _ = cli(*arguments, "--help")
    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)  # typer colours its help wherever it thinks itself in a CI
    assert all(word in plain for word in words)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("base/seq", "no preset is named 'base/seq'; did you mean 'base/sequences'?"),
        ("base/image", "no preset is named 'base/image'; did you mean 'base/images'?"),
        ("base", "no preset is named 'base'; its variants are base/sequences, base/images"),
        ("shd/smal", "no preset is named 'shd/smal'; did you mean 'shd/small'?"),
    ],
)
def test_the_nearest_name_is_told(cli, name, says):
    status, _, err = cli("preset", "show", name)
    assert status == 1
    assert says in err
