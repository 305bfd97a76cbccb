"""The base recipes: every number has a source, and the rules that make fields from the data are what they say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.config import known_keys
from bitspike.experiments.recipes import (
    BASES,
    Facts,
    batch_for,
    decays,
    downsample_for,
    epochs_for,
    lines_about,
    recipe,
    recipe_fields,
    recipe_toml,
)
from bitspike.experiments.schema import Experiment

RULES = recipe("base/sequences")["rules"]


@pytest.mark.parametrize("base", BASES)
def test_every_number_has_a_source_and_is_a_field(base):
    held = recipe(base)
    fields = {f"{table}.{key}" for table in ("net", "train") for key in held[table]}
    assert fields <= set(held["sources"])
    assert set(held["sources"]) <= set(known_keys(Experiment))
    steps = None if base == "base/images" else 100
    for samples, layers in ((1800, ["conv", "dense"]), (1800, ["dense", "dense"]), (9, ["dense"])):
        made = recipe_fields(base, Facts(samples, steps, layers), {})
        assert {f"{table}.{key}" for table in made for key in made[table]} <= set(held["sources"])
    assert recipe_toml(base).startswith(f"# {base}: ")


@pytest.mark.parametrize("steps", [10, 100, 1000])
def test_time_constants_are_a_share_of_the_steps(steps):
    hidden, last = decays(["dense", "dense"], steps, RULES)
    for decay, share in ((hidden["low"], "fast"), (hidden["high"], "slow"), (last, "last")):
        assert decay == pytest.approx(math.exp(-1 / (RULES[f"{share}_decay"] * steps)), abs=6e-4)
    assert decays(["conv", "dense", "dense"], steps, RULES)[0] == pytest.approx(
        math.exp(-1 / (RULES["conv_decay"] * steps)), abs=6e-4
    )


def test_at_100_steps_they_are_those_of_shd_best():
    assert decays(["dense"] * 3, 100, RULES) == [{"low": 0.6, "high": 0.97}, {"low": 0.6, "high": 0.97}, 0.95]


@pytest.mark.parametrize(
    ("samples", "batch", "epochs", "repeat"),
    [(20, 32, 20, 150), (500, 32, 21, 9), (1800, 32, 18, 3), (2700, 64, 23, 3), (7340, 256, 21, 5)],
)
def test_iterations_are_as_many_whatever_the_number_of_samples(samples, batch, epochs, repeat):
    assert batch_for(samples, RULES) == batch
    assert epochs_for(samples, batch, RULES) == (epochs, repeat)


@given(st.integers(1, 38_400), st.sampled_from(["iterations", "camera_iterations"]))
def test_iterations_are_never_far_from_the_rule(samples, rule):
    batch = batch_for(samples, RULES)
    epochs, repeat = epochs_for(samples, batch, {**RULES, "iterations": RULES[rule]})
    passes = RULES[rule] / math.ceil(samples / batch)
    assert epochs * repeat == pytest.approx(max(passes, RULES["fewest_passes"]), rel=0.04)
    assert 13 <= epochs <= 30


def test_large_sets_get_20_passes():
    assert epochs_for(60_000, 256, RULES) == (20, 1)


def test_a_file_that_gives_the_passes_of_an_epoch_has_20_epochs():
    fields = recipe_fields("base/sequences", Facts(1800, 30, ["conv", "dense"]), {"data": {"repeat": 1}})
    assert fields["train"]["epochs"] == 20


def test_convolutions_take_fewer_iterations():
    dense, conv = (recipe_fields("base/sequences", Facts(1800, 30, [kind, "dense"]), {}) for kind in ("dense", "conv"))
    assert (dense["data"]["repeat"], dense["train"]["epochs"]) == (3, 18)
    assert (conv["data"]["repeat"], conv["train"]["epochs"]) == (1, 22)
    assert (dense["net"]["delays"], conv["net"].get("delays")) == ([0, 8], None)
    assert (dense["net"].get("norm"), conv["net"]["norm"]) == (None, "shared")


@pytest.mark.parametrize(("steps", "delays"), [(4, 1), (40, 10), (100, 25), (1000, 25)])
def test_delays_are_a_quarter_of_the_steps_and_25_at_most_and_none_of_the_inputs(steps, delays):
    for layers, expected in ((3, [0, delays, delays]), (2, [0, delays]), (1, delays)):
        assert recipe_fields("base/sequences", Facts(1800, steps, ["dense"] * layers), {})["net"]["delays"] == expected


def test_decays_are_learnt_unless_the_file_gives_them_and_start_inside_0_and_1():
    for steps in (1, 3, 100, 10**6):
        net = recipe_fields("base/sequences", Facts(1800, steps, ["dense"] * 2), {})["net"]
        assert net["learn_beta"] is True
        assert all(0 < beta < 1 for beta in (net["beta"][0]["low"], net["beta"][0]["high"], net["beta"][1]))
    given = {"net": {"beta": 0.9}}
    assert "learn_beta" not in recipe_fields("base/sequences", Facts(1800, 100, ["dense"] * 2), given)["net"]


@pytest.mark.parametrize(("side", "factor"), [(8, 1), (36, 1), (37, 2), (72, 2), (73, 4), (346, 16)])
def test_cameras_are_down_sampled_to_36_pixels(side, factor):
    assert downsample_for((2, 30, side), RULES) == factor
    assert downsample_for((1, side, 30), RULES) == factor
    assert downsample_for((side,), RULES) == 1


@pytest.mark.parametrize(("short", "factor"), [(1, 1), (5, 4), (8, 8), (15, 8), (16, 16), (260, 16)])
def test_a_narrow_camera_keeps_a_pixel_of_its_shorter_side(short, factor):
    assert downsample_for((2, short, 346), RULES) == factor
    assert short // factor >= 1


def test_a_given_batch_decides_the_passes():
    assert recipe_fields("base/sequences", Facts(1800, 100, ["dense"]), {"train": {"batch": 180}})["data"] == {
        "repeat": 15
    }


def test_nothing_is_told_of_an_experiment_that_took_nothing():
    assert lines_about({"net.beta": "table of hyperparameters"}, {}) == []


@pytest.mark.parametrize(
    ("given", "choose"),
    [
        ({}, "last"),
        ({"train": {"schedule": "decay"}}, "last"),
        ({"train": {"schedule": "cosine"}}, None),
        ({"train": {"half_period": 100}}, None),
        ({"train": {"patience": 5}}, None),
    ],
)
@pytest.mark.parametrize("base", BASES)
def test_the_last_epoch_counts_unless_someone_chooses_by_validation_or_the_rate_does_not_fall(base, given, choose):
    steps = 30 if base == "base/sequences" else None
    assert recipe_fields(base, Facts(1800, steps, ["conv", "dense"]), given)["train"].get("choose") == choose
    assert "choose" not in recipe_fields(base, Facts(1800, steps, ["conv", "dense"], validation=True), given)["train"]
