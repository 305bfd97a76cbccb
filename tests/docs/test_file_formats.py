"""The page on file formats names every key that a run writes, and no other."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from helpers.files import fake_mnist
from helpers.own_images import NO_BOARD, write_experiment

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "file-formats.md").read_text(encoding="utf-8")


def documented(title):
    """The keys in the first column of a section's table."""
    section = re.search(rf"^### {re.escape(title)}\n(.*?)(?=^#)", PAGE, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^\| `(\w+)` \|", section[1], re.MULTILINE))


@pytest.fixture
def run(workplace, cli):
    fake_mnist(workplace.parent / "root", train=200, test=100)
    status, _, err = cli("train", "mnist/quick", "--device", "cpu", "--epochs", "1", "--set", "train.recalibrate=20")
    assert status == 0, err
    return workplace / "runs" / "mnist-quick"


def test_the_page_has_the_keys_of_a_run(run):
    row = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
    assert documented("metrics.jsonl") == row.keys()
    assert all(f"`{key}`" in PAGE for key in row["timing"])
    assert documented("summary.json") == json.loads((run / "summary.json").read_text()).keys()
    with safe_open(run / "best.safetensors", "pt") as file:
        assert file.metadata().keys() == {"bitspike"}
        assert documented("best.safetensors") == json.loads(file.metadata()["bitspike"]).keys()
        kinds = {re.sub(r"\d+", "i", name) for name in file.keys()}  # noqa: SIM118  (it is no dict)
    assert all(f"`{kind}`" in PAGE or kind.startswith("layers.i.norm.") for kind in kinds), kinds
    assert documented("last.ckpt") == torch.load(run / "last.ckpt", weights_only=True).keys()


def test_the_page_has_the_files_of_a_run(run):
    for file in run.iterdir():
        name = "events.out.tfevents.*" if file.name.startswith("events") else file.name
        assert f"| `{name}` |" in PAGE or name == ".lock", name


def test_the_page_has_the_keys_of_an_evaluation(run, cli):
    printed = json.loads(cli("evaluate", run, "--json")[1])
    section = re.search(r"^## The output of evaluate\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)[1]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == printed.keys()
    assert all(f"`{key}`" in section for key in printed["classes"][0])


def test_the_page_has_the_keys_of_baselines(workplace, cli):
    write_experiment(workplace)
    assert cli("train", "mine.toml", "--epochs", "1", "--baselines", *NO_BOARD)[0] == 0
    kept = json.loads((workplace / "runs" / "mine" / "baselines.json").read_text())
    assert documented("baselines.json") == kept.keys()
