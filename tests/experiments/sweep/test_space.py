"""Search spaces: draws, settings, the paper's values inside, and what a file may hold."""

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from optuna.trial import FixedTrial

from bitspike.data.datasets import open_dataset
from bitspike.experiments.net_config import Rise
from bitspike.experiments.presets import preset, preset_names
from bitspike.experiments.schema import as_values, read_experiment, with_values
from bitspike.experiments.sweep.space import Space, setting_lines, space_of
from bitspike.experiments.sweep.space_files import preset_tables, searchable
from bitspike.experiments.unused import refuse_unused
from helpers.own_files import NET, images

FOUR = ("float32", "theta1", "fixed", "annealed")


def draws(space, count, seed=0):
    """Parameters drawn at random from a space."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    return [space.suggest(study.ask()) for _ in range(count)]


def experiment_of(space, spec, drawn):
    return with_values(spec, setting_lines(space.settings(drawn)))


def in_file(tmp_path, search, net=NET):
    """A file with a table [search] of these lines."""
    file = tmp_path / "mine.toml"
    file.write_text(f"name = 'mine'\n[data]\nname = 'mnist'\n{net}\n[search]\n{search}\n")
    return str(file)


def test_every_preset_but_coding_has_a_space():
    assert [name for name in preset_names() if not name.startswith("coding/")] == searchable()


@pytest.mark.parametrize("name", ["fashion/theta1", "fashion/annealed", "shd/fixed", "shd/annealed", "shd/best"])
def test_every_draw_is_an_experiment_that_anneals_upwards(name):
    space, spec = space_of(name), preset(name)
    static = name.startswith("fashion")
    shape = (1, 28, 28) if static else (140,) if name == "shd/best" else (700,)
    data = SimpleNamespace(shape=shape, train=SimpleNamespace(steps=None if static else 100))
    for drawn in draws(space, 50):
        made = experiment_of(space, spec, drawn)
        refuse_unused(made, data)
        assert made.name == name
        for theta in made.net.theta if isinstance(made.net.theta, list) else ():
            assert not isinstance(theta, Rise) or theta.stop > theta.start


@pytest.mark.parametrize("task", ["mnist", "fashion", "dvs128", "shd"])
@pytest.mark.parametrize("variant", FOUR)
def test_the_papers_own_values_are_in_the_space_and_give_the_preset(task, variant):
    name = f"{task}/{variant}"
    space, spec = space_of(name), preset(name)
    held = as_values(spec)

    def value(key):
        table = held
        for part in key.split("."):
            table = table[int(part)] if isinstance(table, list) else table.get(part, "none")
        return table

    published = {}
    for key in space.parameters:
        if key.endswith(".rise"):
            layer = key.removesuffix("rise")
            published[key] = value(f"{layer}stop") - value(f"{layer}start")
        else:
            published[key] = value(key)
    drawn = space.suggest(FixedTrial(published))  # raises or warns where a value is outside of its range
    made = experiment_of(space, spec, drawn)
    if variant != "annealed":
        assert as_values(made) | {"sources": {}} == held | {"sources": {}}
    else:  # stop = start + rise is rounded
        assert [t.stop for t in made.net.theta] == pytest.approx([t.stop for t in spec.net.theta], rel=1e-12)


def test_what_the_variants_search_is_the_papers_list():
    common = {"net.beta", "net.slope", "train.lr", "train.grad_clip", "train.weight_clip"}
    images = common | {"net.dropout", "net.norm"}
    layers = {f"net.theta.{layer}.{part}" for layer in range(3) for part in ("start", "rise", "rate")}
    assert set(space_of("mnist/theta1").parameters) == images
    assert set(space_of("mnist/fixed").parameters) == images | {"net.theta"}
    assert set(space_of("mnist/annealed").parameters) == images | layers
    assert set(space_of("fashion/annealed").parameters) == images | layers | {"train.optimizer", "train.momentum"}
    two = {name for name in layers if ".2." not in name}
    assert set(space_of("shd/annealed").parameters) == common | two | {"net.dropout.0", "net.dropout.1"}
    held = space_of("shd/annealed").parameters
    assert held["net.theta.0.rate"].log
    assert held["net.theta.0.rate"].low < 1.36e-5
    assert all("source" in table for name in searchable() for table in preset_tables(name).values())


def test_canonical_values_are_json_and_give_the_space_back():
    space = space_of("fashion/annealed")
    held = json.loads(json.dumps(space.canonical()))
    assert held == space.canonical()
    again = Space.from_canonical(held, "study")
    assert again.canonical() == held
    assert draws(again, 3) == draws(space, 3)


def test_order_in_the_file_has_no_effect(tmp_path):
    lines = ["train.lr = { low = 1e-4, high = 0.1, log = true }", "net.beta = { low = 0.1, high = 0.9 }"]
    spaces = [space_of(in_file(tmp_path, "\n".join(each))) for each in (lines, lines[::-1])]
    assert draws(spaces[0], 3) == draws(spaces[1], 3)
    assert list(draws(spaces[0], 1)[0]) == ["net.beta", "train.lr"]


def test_names_with_quotes_and_without_are_the_same(tmp_path):
    plain = space_of(in_file(tmp_path, "net.beta = { low = 0.1, high = 0.9 }")).canonical()
    assert space_of(in_file(tmp_path, '"net.beta" = { low = 0.1, high = 0.9 }')).canonical() == plain
    assert space_of(in_file(tmp_path, "[search.net]\nbeta = { low = 0.1, high = 0.9 }")).canonical() == plain


def test_the_example_of_the_reference_is_a_space(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "reference" / "search.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n[search]\n")[2].partition("```")[0]
    net = NET.replace("theta = 2.0", "theta = [{ start = 2.0, stop = 3.0, rate = 0.1 }, 1.0]")
    space = space_of(in_file(tmp_path, example, net))
    assert len(space.parameters) == 10
    spec = read_experiment(Path(space.source))
    assert all(experiment_of(space, spec, drawn) for drawn in draws(space, 10))


def test_kinds_of_parameters_and_what_they_set(tmp_path):
    space = space_of(
        in_file(
            tmp_path,
            """
            train.batch = { low = 8, high = 64, step = 8, integer = true }
            net.steps = { low = 2, high = 200, log = true, integer = true }
            net.theta = { low = 0.5, high = 2.0, step = 0.5 }
            train.grad_clip = { choices = ["none", 0.5, 2.0] }
            net.learn_beta = { choices = [true, false] }
            train.optimizer = { choices = ["adam", "sgd"] }
            train.momentum = { low = 0.5, high = 0.9, when = { "train.optimizer" = "sgd" } }
            """,
        )
    )
    spec = read_experiment(Path(space.source))
    seen = [(drawn, experiment_of(space, spec, drawn)) for drawn in draws(space, 60)]
    assert {made.train.batch % 8 for _, made in seen} == {0}
    assert {made.net.theta for _, made in seen} == {0.5, 1.0, 1.5, 2.0}
    assert {made.train.grad_clip for _, made in seen} == {None, 0.5, 2.0}
    assert {made.net.learn_beta for _, made in seen} == {True, False}
    assert any(made.net.steps < 20 for _, made in seen)
    for drawn, made in seen:
        assert ("train.momentum" in drawn) == (made.train.optimizer == "sgd") == (made.train.momentum > 0)


def test_a_rise_may_start_from_the_experiments_threshold(tmp_path):
    net = NET.replace("theta = 2.0", "theta = [{ start = 2.0, stop = 3.0, rate = 0.1 }, 1.0]")
    space = space_of(in_file(tmp_path, "net.theta.0.rise = { low = 1, high = 9 }", net))
    again = Space.from_canonical(space.canonical(), "study")
    assert again.settings({"net.theta.0.rise": 5.0}) == {"net.theta.0.stop": 7.0}


def test_a_momentum_of_the_experiment_is_left_out_for_another_optimizer():
    space, spec = space_of("fashion/annealed"), preset("fashion/annealed")
    adam = next(drawn for drawn in draws(space, 20) if drawn["train.optimizer"] == "adam")
    assert experiment_of(space, spec, adam).train.momentum == 0.0
    assert spec.train.momentum == 0.855


def test_a_field_that_is_set_by_hand_is_not_searched():
    space = space_of("fashion/annealed", ["train.optimizer=sgd", "net.theta.0.stop=90", "net.surrogate_center=current"])
    assert "train.optimizer" not in space.parameters
    assert space.parameters["train.momentum"].when == {}
    assert "net.theta.0.rise" not in space.parameters
    assert "train.momentum" not in space_of("fashion/annealed", ["train.optimizer=adam"]).parameters
    assert not any("theta" in name for name in space_of("fashion/annealed", ["net.theta=3"]).parameters)


def test_training_ignores_the_table(tmp_path):
    file = in_file(tmp_path, "net.beta = { low = 0.1, high = 0.9 }")
    assert read_experiment(Path(file)).net.beta == 0.9


def test_data_of_your_own_has_its_recipes_space(tmp_path):
    np.savez(tmp_path / "mine.npz", **images(60, side=12))
    file = tmp_path / "mine.toml"
    file.write_text("[data]\nfile = 'mine.npz'\n[train]\nlr = 1e-3\n")
    space = space_of(str(file))
    assert {"train.latent_clip", "net.beta"} <= set(space.parameters)
    assert "train.lr" not in space.parameters  # the file gives it
    spec = read_experiment(file)
    data = open_dataset(spec.data)
    for drawn in draws(space, 5):
        made = experiment_of(space, spec, drawn)
        assert made.train.lr == 1e-3
        refuse_unused(made, data)


def test_numbers_keep_all_digits():
    lines = setting_lines({"train.lr": 0.1 + 0.2, "net.norm": "none", "train.batch": 2**40})
    assert [tomllib.loads(f"v={line.partition('=')[2]}")["v"] for line in (lines[0], lines[2])] == [0.1 + 0.2, 2**40]
