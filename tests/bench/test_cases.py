"""The cases of the benchmark: those of the paper, and what grows in the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bitspike.bench import problem as problem_module
from bitspike.bench.cases import CASES, ON_CPU, ON_GPU, Case, select_cases
from bitspike.bench.problem import prepare, synthetic
from bitspike.experiments.schema import with_values
from helpers.bench import CPU, by_name, tiny


def test_the_cases_are_those_of_the_paper():
    for name in ("fashion", "dvs128", "shd"):
        problem = prepare(tiny(name, notation=CASES[name].notation, input_shape=CASES[name].input_shape), CPU)
        assert problem.experiment.net.notation == CASES[name].notation
        assert problem.experiment.train.batch == 2
        assert len(problem.recipe.schedules) == len(CASES[name].layers())
    fashion, shd = (prepare(tiny(name), CPU).recipe for name in ("fashion", "shd"))
    assert (fashion.norm, fashion.optimizer, fashion.dropouts) == (True, "sgd", (0, 0, 0.648))
    assert (shd.norm, shd.optimizer, shd.dropouts) == (False, "adam", (0.186, 0.0176))
    assert (shd.grad_clip, shd.weight_clip, fashion.grad_clip) == (1.0, 1.0, None)


def test_neuron_steps_count_every_layer():
    assert CASES["fashion"].neurons() == 16 * 12 * 12 + 64 * 4 * 4 + 10
    assert CASES["shd"].neuron_steps() == (3000 + 20) * 32 * 333


@pytest.mark.parametrize("notation", ["4Conv3p1-256Dense10", "4Conv3s2-36Dense10", "4Conv3-AP2s1-100Dense10"])
def test_what_peers_cannot_build_is_refused(notation):
    with pytest.raises(ValueError, match=r"bench: .* has a padding or a stride, which the peers are built without"):
        replace(CASES["fashion"], notation=notation, input_shape=(1, 8, 8)).layers()


def test_an_optimizer_that_peers_do_not_have_is_refused(monkeypatch):
    adamw = with_values(problem_module.preset("fashion/annealed"), ["train.optimizer=adamw"])
    monkeypatch.setattr(problem_module, "preset", lambda name: adamw)
    with pytest.raises(ValueError, match=r"bench: peers train with 'adam' or 'sgd', but .* train.optimizer = 'adamw'"):
        prepare(tiny("fashion"), CPU)


def test_without_names_the_device_decides():
    assert [case.name for case in select_cases([], "cuda")] == list(ON_GPU)
    assert [case.name for case in select_cases([], "cpu")] == list(ON_CPU)
    assert [case.name for case in select_cases(["shd", "shd", "dense-T50"], "cpu")] == ["shd", "dense-T50"]


def test_an_unknown_case_names_the_known_ones():
    known = "no case is named 'shdd'; known: fashion, dvs128, dvs128-16, shd, layer16k, layer2k, growth"
    with pytest.raises(ValueError, match=known):
        select_cases(["shdd"], "cpu")


def test_growth_changes_one_thing_at_a_time():
    groups: dict[str, list[Case]] = {}
    for case in select_cases(["growth"], "cpu"):
        groups.setdefault(case.group, []).append(case)
    assert list(groups) == [f"{kind}, {along}" for kind in ("dense", "conv") for along in ("T", "width", "batch")]
    for group, members in groups.items():
        along = group.split(", ")[1]
        sizes = [case.grown_to() for case in members]
        assert sizes == sorted(set(sizes))
        assert len({(case.steps if along != "T" else 0) for case in members}) == 1
        assert len({(case.batch if along != "batch" else 0) for case in members}) == 1
        assert len({case.notation for case in members}) == (len(members) if along == "width" else 1)
    assert [case.steps for case in groups["dense, T"]] == [50, 100, 200, 400, 800, 1600, 3200]


@by_name
def test_synthetic_data_is_as_dense_as_said(case):
    wide = replace(case, batch=200, steps=20)
    values = synthetic(wide, wide.batch, 0, CPU)
    assert values.dtype == torch.uint8
    assert values.count_nonzero() / values.numel() == pytest.approx(case.density, rel=0.1)
    assert values.max() == {"fashion": 255, "layer2k": 1}.get(case.name, 4)
    if case.repeats:
        assert (values > 1).sum() / (values > 0).sum() == pytest.approx(1 / 3, rel=0.05)
    problem = prepare(case, CPU)
    assert problem.x.shape == ((2, *case.input_shape) if case.static else (8, 2, *case.input_shape))
    assert problem.x.is_floating_point() == case.static
    assert problem.x.max() <= 1 or not case.static
