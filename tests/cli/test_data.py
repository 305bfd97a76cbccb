"""`bitspike data`, as a user calls it."""

import json
import os

import pytest

from helpers.files import fake_mnist, fake_shd


@pytest.fixture
def here(workplace):
    return workplace


def test_the_data_root_is_where_the_environment_says(here, cli, tmp_path, monkeypatch):
    fake_mnist(tmp_path / "elsewhere")
    assert cli("data", "info", "mnist")[0] == 1
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "elsewhere"))
    status, out, _ = cli("data", "info", "mnist", "--json")
    assert status == 0
    told = json.loads(out)
    assert (told["classes"], told["shape"]) == (10, [1, 28, 28])
    assert (told["train"]["samples"], told["test"]["samples"]) == (40, 10)
    states = {each["name"]: each["state"] for each in json.loads(cli("data", "list", "--json")[1])}
    assert states["mnist"] == "ready"
    assert str(tmp_path / "elsewhere") in "".join(cli("data", "list")[1].split())


def test_the_data_root_is_shown_in_one_piece(here, cli, tmp_path):
    assert str(tmp_path / "root") in cli("data", "list")[1]


def test_folders_that_are_only_read_are_shown(here, cli, tmp_path, monkeypatch):
    fake_mnist(tmp_path / "copies")
    monkeypatch.setenv("BITSPIKE_DATA", os.pathsep.join((str(tmp_path / "root"), str(tmp_path / "copies"))))
    status, out, _ = cli("data", "list")
    assert status == 0
    assert f"Datasets (in {tmp_path / 'root'}; copies in {tmp_path / 'copies'})" in out


def test_data_list(here, cli):
    listed = json.loads(cli("data", "list", "--json")[1])
    states = {each["name"]: each["state"] for each in listed}
    assert states == dict.fromkeys(("mnist", "fashion", "shd", "dvs128", "nmnist-small", "dvs-sign"), "absent") | {
        "coding": "built in"
    }
    status, out, _ = cli("data", "list")
    assert status == 0
    assert all(name in out for name in states)


def test_data_that_is_not_the_published_is_told_with_a_status_and_the_way_out(here, cli, tmp_path):
    fake_mnist(tmp_path / "root")
    status, out, err = cli("data", "verify", "mnist", "--json")
    assert status == 1
    assert [ok for _, ok, _ in json.loads(out)] == [False] * 4
    assert err == "bitspike: mnist is damaged; run: bitspike data fetch mnist\n"
    assert cli("data", "verify", "mnist")[1].count("BAD ") == 4


def test_data_info_in_words(here, cli):
    status, out, _ = cli("data", "info", "coding")
    assert status == 0
    assert "classes      1" in out
    assert "events a sample" in out


def test_data_info_names_the_speakers(here, cli, tmp_path):
    fake_shd(tmp_path / "root")
    told = json.loads(cli("data", "info", "shd", "--json")[1])
    assert told["train"]["speakers"] == [0, 1, 2, 6]
    assert told["test"]["speakers"] == [0, 4]
    assert "shared groups" not in [each["cause"] for each in told["warnings"]]  # these splits are published
    assert "speakers [0, 1, 2, 6]" in cli("data", "info", "shd")[1]
