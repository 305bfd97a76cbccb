"""The networks that the repository holds: of today's presets, and readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import bitspike
from bitspike.experiments.comparison import differences
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import read_experiment

BEST = Path(__file__).parents[2] / "results" / "best"


@pytest.mark.parametrize("task", ["mnist", "fashion"])
def test_the_best_networks_are_the_presets_and_load(task):
    folder = BEST / task
    made = read_experiment(folder / "experiment.toml")
    free = ("seed", "train.tensorboard", "train.watch_every")
    assert differences(preset(f"{task}/best"), made, free=free) == []
    net = bitspike.load_run(folder).eval()
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        spikes = net(images).spikes
    assert spikes.shape == (made.net.steps, 2, 10)
    assert spikes.any()


@pytest.mark.parametrize("task", ["mnist", "fashion"])
def test_their_weights_and_figures_are_of_one_run(task):
    summary = json.loads((BEST / task / "summary.json").read_text())
    cell = json.loads((BEST.parent / "static" / "summary.json").read_text())["cells"]["holdout"][task]["best"]
    with safe_open(BEST / task / "best.safetensors", "pt") as file:
        metadata = json.loads(file.metadata()["bitspike"])
    assert (metadata["epoch"], metadata["accuracy"]) == (summary["best_epoch"], summary["valid_accuracy"])
    assert round(100 * summary["accuracy"], 2) == round(cell["accuracies"][summary["seed"]], 2)


@pytest.mark.parametrize(("task", "mean"), [("mnist", 99.41), ("fashion", 90.89)])
def test_the_documented_mean_is_the_reports(task, mean):
    cells = json.loads((BEST.parent / "static" / "summary.json").read_text())["cells"]
    assert round(cells["holdout"][task]["best"]["mean"], 2) == mean
    for page in ("README.md", "docs/reports/static.md"):
        assert f"{mean:.2f} / " in (BEST.parents[1] / page).read_text()
