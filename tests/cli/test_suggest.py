"""`bitspike suggest`: thresholds of an experiment's network, shown or written as an experiment that trains."""

import json
import re
import tomllib

import pytest

from bitspike.experiments.schema import read_experiment
from helpers.own_images import NO_BOARD, settings


def test_the_table_has_a_row_for_each_layer(here, cli):
    status, out, _ = cli("suggest", "mine.toml", "--seed", "3")
    assert status == 0
    assert "36 training samples, seed 3" in out  # those that train: 6 of 42 are held out
    row = r"layers\.{}\.lif\s+([\d.]+)\s+\d+%\s+([\d.]+)\s+([\d.]+)\s+[\d.]+"
    for place in (0, 1):
        drive, theta, start = map(float, re.search(row.format(place), out).groups())
        assert theta == pytest.approx(0.5 * drive, rel=1e-2)
        assert start == pytest.approx(0.25 * drive, rel=1e-2)


def test_the_columns_are_explained(here, cli):
    lines = cli("suggest", "mine.toml")[1].splitlines()
    for word in ("drive", "fire at theta", "theta", "from", "rate"):
        assert word in lines[1]
        assert any(f"{word}: " in line for line in lines[-4:]), word
    assert max(map(len, lines[-4:])) <= 80


def test_json_holds_what_the_file_gets(here, cli):
    before = (here / "mine.toml").read_bytes()
    found = json.loads(cli("suggest", "mine.toml", "--json", "--write", "suggested.toml")[1])
    written = tomllib.loads((here / "suggested.toml").read_text())
    assert written["net"]["theta"] == found["theta"]
    assert [each["layer"] for each in found["layers"]] == ["layers.0.lif", "layers.1.lif"]
    assert found["iterations"] == 3 * 5  # epochs of 36 samples in batches of 8
    assert (here / "mine.toml").read_bytes() == before
    again = read_experiment(here / "suggested.toml")
    assert again.name == "suggested"  # so that its runs have a folder of their own
    same = again.model_copy(update={"name": "mine", "net": again.net.model_copy(update={"theta": 0.0}), "sources": {}})
    mine = read_experiment(here / "mine.toml")
    assert same == mine.model_copy(update={"net": mine.net.model_copy(update={"theta": 0.0})})
    assert "bitspike suggest" in again.sources["net.theta"]


def test_the_written_experiment_trains_without_a_theta_in_the_first(here, cli):
    text = (here / "mine.toml").read_text()
    (here / "mine.toml").write_text("\n".join(line for line in text.splitlines() if not line.startswith("theta")))
    assert cli("suggest", "mine.toml", "--write", "sub/new.toml", *settings("net.recurrent=true"))[0] == 0
    status, out, _ = cli("train", "sub/new.toml", "--epochs", "1", "--out", "run", *NO_BOARD)
    assert status == 0
    assert "test accuracy" in out


def test_a_file_is_not_written_over_without_force(here, cli):
    (here / "new.toml").write_text("old")
    status, _, err = cli("suggest", "mine.toml", "--write", "new.toml")
    assert status == 1
    assert "--write new.toml: the file exists; take another name, or add --force" in err
    assert (here / "new.toml").read_text() == "old"
    assert cli("suggest", "mine.toml", "--write", "new.toml", "--force")[0] == 0
    assert (here / "new.toml").read_text() != "old"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--write", "mine.toml", "--force"), "--write mine.toml: this is the experiment itself"),
        (("--write", ".", "--force"), "is a folder"),
        (("--write", "new.txt"), "must end in .toml"),
        (("--force",), "--force is for --write"),
        (("--set", "net.theta=3"), "--set net.theta=3: net.theta is what is suggested; leave it out"),
        (("--set", "net.thta=3"), "net.theta"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(arguments, says, here, cli):
    before = (here / "mine.toml").read_bytes()
    status, out, err = cli("suggest", "mine.toml", *arguments)
    assert (status, out) == (1, "")
    assert says in err
    assert err.count("\n") == 1
    assert (here / "mine.toml").read_bytes() == before


def test_a_readout_by_its_membrane_never_fires(here, cli):
    _, out, _ = cli("suggest", "mine.toml", *settings("net.readout=membrane", "train.loss=cross_entropy"))
    assert re.search(r"layers\.1\.lif\s+[\d.]+\s+never\s+-\s+-\s+-\n", out)
