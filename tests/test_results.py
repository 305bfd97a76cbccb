"""The networks that the repository holds: of today's presets, and readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import bitspike
from bitspike.experiments.assembly import differences
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import read_experiment

BEST = Path(__file__).parents[1] / "results" / "best"


@pytest.mark.parametrize("task", ["mnist", "fashion"])
def test_the_best_networks_are_the_presets_and_load(task):
    folder = BEST / task
    made = read_experiment(folder / "experiment.toml")
    free = ("seed", "train.tensorboard", "train.watch_every")
    assert differences(preset(f"{task}/best"), made, free=free) == []
    net = bitspike.load_run(folder).eval()
    with torch.no_grad():
        spikes = net(torch.rand(2, 1, 28, 28)).spikes
    assert spikes.shape == (made.net.steps, 2, 10)
    assert spikes.any()


@pytest.mark.parametrize(("task", "mean"), [("mnist", 99.41), ("fashion", 90.25)])
def test_the_documented_mean_is_the_reports(task, mean):
    cells = json.loads((BEST.parent / "static" / "summary.json").read_text())["cells"]
    assert round(cells["holdout"][task]["best"]["mean"], 2) == mean
    for page in ("README.md", "docs/static.md"):
        assert f"{mean:.2f} / " in (BEST.parents[1] / page).read_text()
