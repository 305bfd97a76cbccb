"""Figures of the static table from given trials: spreads, distances, effects of ablations, spikes, curves."""

import json
import shlex
import statistics
from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import build
from bitspike.analysis.activity import as_layer, layer_activity, measure_activity
from bitspike.analysis.static_figures import COLORS, Line, middle_curve, visible
from bitspike.experiments.reproduce.catalog import TABLES
from bitspike.experiments.reproduce.tables.effects import effect
from bitspike.experiments.reproduce.tables.figures import Figures, distance
from bitspike.experiments.reproduce.tables.markdown import FAR, far, markdown, span
from bitspike.experiments.reproduce.tables.report import training_seconds, without_folder
from bitspike.experiments.reproduce.tables.results import Result, Trial

# ---- Figures of a cell


def result(name, *trials, protocol="paper"):
    """A cell from (seed, accuracy by epoch in percent) of its trials."""
    made = []
    for seed, accuracies in trials:
        summary = {
            "seed": seed,
            "protocol": protocol,
            "accuracy": max(accuracies) / 100 if accuracies else None,
            "best_epoch": accuracies.index(max(accuracies)) + 1 if accuracies else 0,
        }
        on = "test" if protocol == "paper" else "valid"
        made.append(Trial(None, None, summary, [{f"{on}_accuracy": value / 100} for value in accuracies]))
    return Result(protocol, "mnist", name, None, made)


def test_pairs_are_cut_to_the_epochs_that_both_have():
    base = result("annealed", (0, [50, 60, 90]), (1, [40, 30]), (2, [10, 20]))
    ablation = result("moving", (2, [25]), (0, [55, 58]), (7, [99]))
    found = effect(base, ablation)
    assert found.seeds == [2, 0]
    assert found.epochs == [1, 2]
    assert found.base == pytest.approx([10, 60])
    assert found.here == pytest.approx([25, 58])
    assert found.differences == pytest.approx([15, -2])
    assert effect(base, result("moving", (9, [1]))) is None
    assert effect(base, result("moving", (0, []))) is None


def test_a_longer_ablation_is_cut_too():
    found = effect(result("annealed", (0, [50])), result("moving", (0, [40, 95])))
    assert found.here == pytest.approx([40])


def test_figures_leave_out_trials_without_an_epoch():
    assert Figures.of([90.0, None, 92.0]) == Figures(92.0, 91.0, statistics.stdev([90.0, 92.0]))
    assert Figures.of([90.0]) == Figures(90.0, 90.0, None)
    assert Figures.of([None]) == Figures(None, None, None)


def test_distance_is_in_the_papers_sigmas_and_in_pooled_ones():
    away = distance(Figures(0.0, 90.0, 0.4), {"best": 0.0, "mean": 91.2, "sigma": 0.3})
    assert away["points"] == pytest.approx(-1.2)
    assert away["sigmas"] == pytest.approx(-4.0)
    assert away["pooled"] == pytest.approx(-1.2 / (0.25 / 2) ** 0.5)
    assert distance(Figures(0.0, 90.0, None), {"mean": 91.2, "sigma": 0.3})["pooled"] is None
    assert distance(Figures(None, None, None), {"mean": 91.2, "sigma": 0.3}) is None
    assert distance(Figures(0.0, 90.0, 0.4), None) is None


def test_far_is_beyond_two_sigmas_either_way():
    assert [far({"away": {"sigmas": s}}) for s in (-FAR - 0.1, -FAR, 1.0, FAR + 0.1, None)] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert not far({"away": None})


def test_the_best_trial_is_the_most_accurate_that_has_weights(tmp_path):
    trials = []
    for trial in result("fixed", (0, [70, 60]), (1, [50, 90]), (2, [99]), (3, [])).trials:
        folder = tmp_path / f"trial-{trial.summary['seed']}"
        folder.mkdir()
        if trial.summary["seed"] != 2:
            (folder / "best.safetensors").touch()
        trials.append(replace(trial, folder=folder))
    assert Result("paper", "mnist", "fixed", tmp_path, trials).best_trial().summary["seed"] == 1
    trials[1].summary["best_epoch"] = 1  # its weights are of another epoch than its most accurate (train.choose)
    assert Result("paper", "mnist", "fixed", tmp_path, trials).best_trial().summary["seed"] == 0
    assert Result("paper", "mnist", "fixed", tmp_path, trials[2:]).best_trial() is None


def test_spans():
    assert span([50, 50]) == "50"
    assert span([50, 48]) == "48-50"


def test_a_trial_that_broke_off_and_another_epoch_are_named_in_the_table():
    cell = {
        **dict.fromkeys(("best", "mean", "sigma", "paper", "away", "dead")),
        "trials": 1,
        "epochs": [0],
        "seeds": [3],
        "endings": ["nan"],
        "unlike_preset": [],
        "accuracy_of": "test set, last epoch",
    }
    text = markdown({"cells": {"paper": {"mnist": {"fixed": cell}}}, "ablations": {}})
    assert "- paper mnist/fixed: seed 3 ended in 'nan'" in text
    assert "- paper mnist/fixed: the last epoch counts" in text
    assert "| - | - | - | - | - | - | - | 1 | 0 | - |" in text


CELL = {
    **dict.fromkeys(("best", "mean", "sigma", "paper", "away", "dead")),
    "trials": 1,
    "epochs": [1],
    "seeds": [0],
    "endings": ["epochs"],
    "unlike_preset": [],
    "accuracy_of": "test set, best epoch by test accuracy",
}


@pytest.mark.parametrize(
    ("task", "data", "edition", "says"),
    [
        ("shd", "SHD regenerated", "regenerated", "All figures of `shd` are on SHD regenerated, not on the published"),
        ("shd", "SHD", "a copy", "All figures of `shd` are on SHD (a copy), not on the published files."),
        ("shd", "SHD", "published", None),
        ("dvs-sign", "DVS sign gestures", "simulated from video", None),  # no other files exist
    ],
)
def test_other_files_than_the_usual_ones_are_named_above_the_table(task, data, edition, says):
    cell = {**CELL, "data": data, "edition": edition}
    text = markdown({"cells": {"paper": {task: {"fixed": cell}}}, "ablations": {}})
    assert ("not on the published" in text) is (says is not None)
    assert says is None or says in text


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("bitspike reproduce temporal --out runs/x --task shd", "bitspike reproduce temporal --task shd"),
        ("bitspike reproduce temporal --out='my runs'", "bitspike reproduce temporal"),
        (shlex.join(["bitspike", "train", "--out", "it's here", "--seed", "1"]), "bitspike train --seed 1"),
        ("bitspike train shd/fixed --output x", "bitspike train shd/fixed --output x"),
    ],
)
def test_a_cells_command_does_not_name_the_folder_that_it_was_made_in(command, left):
    assert without_folder(command) == left


# ---- Spikes


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(1, 20))
def test_every_neuron_is_in_one_bin(counts, bins):
    layer = layer_activity("layer", torch.tensor(counts).float(), 40, bins)
    assert sum(layer.histogram) == layer.neurons == len(counts)
    assert layer.dead == pytest.approx(counts.count(0) / len(counts))
    assert layer.spikes == pytest.approx(statistics.mean(counts))
    expected = [sum(min(count * bins // 40, bins - 1) == i for count in counts) for i in range(bins)]
    assert layer.histogram == expected
    assert as_layer(json.loads(json.dumps(asdict(layer)))) == layer


def test_activity_is_what_the_network_fires_however_it_is_batched():
    drawn = torch.Generator().manual_seed(0)
    net = build("2Conv3-AP2-8Dense3", (1, 6, 6), steps=7, theta=0.2, dropout=0.6, generator=drawn)
    x = torch.rand(40, 1, 6, 6)
    with net.record() as seen, torch.no_grad():
        net.eval()(x)
    whole = measure_activity(net, [x], steps=7, bins=7)
    for layer, name in zip(whole, net.neuron_names(), strict=True):
        each = seen[name].spikes.double().sum(0).mean(0)
        assert layer == layer_activity(name, each, 7, 7)
        assert 0 < layer.spikes < 7
    assert measure_activity(net.train(), x.split(3), steps=7, bins=7) == whole
    assert net.training
    with pytest.raises(ValueError, match="a sample at least"):
        measure_activity(net, [], steps=7, bins=7)


def test_a_layer_that_is_read_without_spikes_has_no_activity():
    net = build("6-5-3", readout="membrane")
    assert [layer.name for layer in measure_activity(net, [torch.rand(7, 4, 6)], steps=7, bins=7)] == ["layers.0.lif"]


# ---- Curves


def test_the_median_ends_with_the_first_trial_that_does():
    assert middle_curve([[1.0, 3.0, 9.0], [3.0, 5.0], [2.5, 0.0]]) == [2.5, 3.0]


def test_a_collapse_leaves_the_panel_but_not_the_ends_of_cells():
    line = Line("annealed", [[20.0, 85.0, 86.0, 87.0, 86.0, 87.0, 30.0, 88.0]], 87.9)
    low, high = visible([line])
    assert 30 < low < 86
    assert high > 88


def test_of_many_cells_the_one_that_fails_leaves_the_panel():
    fine = [Line(f"cell {i}", [[84.0 + i / 10] * 8]) for i in range(5)]
    failed = Line("failed", [[10.0] * 8])
    assert visible([*fine, failed])[0] > 80
    assert visible([*fine[:4], failed])[0] < 10
    assert visible([Line("best", [])]) == (0.0, 100.2)  # no epoch, and nothing in the paper


def test_seconds_of_a_cell_are_those_of_its_sessions():
    made = result("annealed", (0, [1]), (1, [1]), (2, [1]), (3, [1]))
    sessions = [("a", 100), ("a", 90), ("b", 200), (None, 7)]
    for trial, (since, seconds) in zip(made.trials, sessions, strict=True):
        trial.summary.update({"seconds": seconds} | ({"together": 2, "together_since": since} if since else {}))
    assert training_seconds(made) == 307


def test_every_cell_has_a_colour_of_its_own():
    assert set(COLORS) == {row for table in TABLES.values() for row in table.rows}
    assert len(set(COLORS.values())) == len(COLORS)
