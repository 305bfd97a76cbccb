"""`bitspike data`, `bitspike preset` and the help texts, as a user calls them."""

import json
import re
import tomllib

import pytest

from bitspike.experiments.assembly import pick_device
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import experiment, with_values
from helpers.files import fake_mnist


@pytest.fixture
def here(workplace):
    return workplace


# ---- Data


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
    assert "events_per_sample" in out


# ---- Presets and help


def test_preset_list(here, cli):
    _, out, _ = cli("preset", "list")
    assert "fashion/annealed" in out
    assert "88.12  87.92   0.22" in out
    listed = json.loads(cli("preset", "list", "--json")[1])
    assert len(listed) == 23
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


# ---- Where to compute


@pytest.fixture
def gpus(monkeypatch):
    def seen(count, **environment):
        monkeypatch.setattr("torch.cuda.is_available", lambda: count > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: count)
        monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
        monkeypatch.delenv("LOCAL_RANK", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return seen


@pytest.mark.parametrize(
    ("name", "count", "environment", "chosen"),
    [
        ("auto", 0, {}, "cpu"),
        ("auto", 2, {}, "cuda:0"),
        ("cpu", 2, {}, "cpu"),
        ("cuda", 2, {}, "cuda:0"),
        ("cuda:0", 1, {}, "cuda:0"),
        ("cuda:1", 2, {}, "cuda:1"),
        ("cuda", 2, {"LOCAL_RANK": "1"}, "cuda:1"),
    ],
)
def test_the_device(name, count, environment, chosen, gpus):
    gpus(count, **environment)
    assert str(pick_device(name)) == chosen


@pytest.mark.parametrize(
    ("name", "count", "environment", "says"),
    [
        (
            "cuda:0", 0, {},
            "--device cuda:0: PyTorch sees no GPU here; use --device cpu, or install a CUDA build of torch",
        ),
        ("cuda:1", 1, {}, "--device cuda:1: PyTorch sees only cuda:0 here; use --device cuda, or one of these"),
        ("cuda:4", 4, {}, "--device cuda:4: PyTorch sees cuda:0 to cuda:3 here; use --device cuda, or one of these"),
        (
            "cuda:0", 4, {"LOCAL_RANK": "1"},
            "--device cuda:0: under torchrun each process takes a GPU of its own; use --device cuda",
        ),
    ],
)  # fmt: skip
def test_a_wrong_device_says_which_there_are(name, count, environment, says, gpus):
    gpus(count, **environment)
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        pick_device(name)


def test_every_command_takes_a_numbered_gpu(here, cli, gpus):
    gpus(0)  # which our line tells, not a list of choices
    for command in (["train", "coding/fixed"], ["evaluate", "run"], ["reproduce", "static"], ["bench"]):
        status, _, err = cli(*command, "--device", "cuda:0")
        assert (status, err.count("\n")) == (1, 1)
        assert err.startswith("bitspike: --device cuda:0: PyTorch sees no GPU here")


@pytest.mark.parametrize("name", ["gpu", "cuda0", "cuda:", "cuda:-1", "cuda:\u0661", "cpu:0", "CUDA", "", "\x1b[31m"])
def test_no_device_at_all_is_wrong_usage(name, here, cli):
    status, _, err = cli("evaluate", "run", "--device", name)
    assert status == 2
    told = " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╰─╮╯]", "", err).split())
    assert f"must be auto, cpu, cuda or cuda:N, such as cuda:0, but is {name!r}" in told
