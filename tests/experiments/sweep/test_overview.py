"""What a study has found: counts, best, front, importances, and the trial that becomes an experiment."""

import json
import tomllib
from pathlib import Path

import optuna
import pytest
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from bitspike.experiments.net_config import Rise
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import experiment, with_values
from bitspike.experiments.sweep.chosen import chosen_experiment, chosen_outcome, chosen_toml
from bitspike.experiments.sweep.overview import overview
from bitspike.experiments.sweep.spread import narrow_ranges, spread
from bitspike.experiments.sweep.stretch import stretched
from helpers.studies import ACCURACY, SPIKES, small_study


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A study of one objective."""
    return small_study(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A study of two objectives."""
    return small_study(tmp_path_factory.mktemp("two"), objectives=(ACCURACY, SPIKES))


def test_counts_and_the_best_trial(one):
    found = overview(one)
    held = json.loads(json.dumps(found.as_json()))
    assert (held["complete"], held["pruned"], held["failed"], held["running"]) == (30, 3, 1, 1)
    assert held["best"]["number"] == one.study.best_trial.number
    assert held["best"]["values"] == [one.study.best_value]
    assert held["best"]["value"] == one.study.best_value
    assert held["best"]["parameters"] == one.study.best_params
    assert held["front"] == []
    assert len(held["trials"]) == 32
    assert held["trials"][30]["error"] == "out of memory"
    assert held["trials"][31]["values"] is None
    assert held["history"][-1]["best"] == pytest.approx(one.study.best_value)
    best = [row["best"] for row in held["history"]]
    assert best == sorted(best)


def test_a_pruned_trial_is_never_the_best(one):
    numbers = {each.number for each in overview(one).outcomes if each.state == "pruned"}
    assert numbers == {9, 19, 29}
    assert overview(one).best.number not in numbers


def test_importances_find_what_matters(tmp_path):
    found = overview(small_study(tmp_path, "mnist/fixed", trials=120))
    shares = found.trials.importances
    assert sum(shares.values()) == pytest.approx(1)
    assert {"train.lr", "net.beta"} == set(sorted(shares, key=shares.get)[-2:])
    assert found.why_no_importances == ""


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_importances_are_of_the_best_trials_and_not_of_the_worst(one):
    optunas = get_param_importances(one.study, evaluator=PedAnovaImportanceEvaluator(evaluate_on_local=False))
    assert overview(one).trials.importances == pytest.approx(optunas)


def test_few_trials_have_no_importances(tmp_path):
    found = overview(small_study(tmp_path, trials=5))
    assert not found.trials.importances
    assert found.why_no_importances == "importances need 20 trials that were trained to their end, but there are 5"


def test_a_study_without_a_complete_trial(tmp_path):
    found = overview(small_study(tmp_path, trials=0))
    assert found.best is None
    assert found.as_json()["complete"] == 0
    with pytest.raises(ValueError, match="no complete trial yet"):
        chosen_outcome(found, None)


def test_the_front_is_optunas(two):
    front = overview(two).front
    assert {each.number for each in front} == {trial.number for trial in two.study.best_trials}
    accuracies = [each.values[0] for each in front]
    assert accuracies == sorted(accuracies, reverse=True)


def test_the_most_accurate_trial_is_on_the_front(tmp_path):
    """Accuracies of few validation samples are often equal: the second objective, then the number, chooses."""
    opened = small_study(tmp_path, trials=4, objectives=(ACCURACY, SPIKES))
    drawn = opened.study.trials[0]
    for values in ([0.95, 300.0], [0.95, 200.0], [0.95, 200.0], [0.95, 250.0]):
        opened.study.add_trial(
            optuna.create_trial(values=values, params=drawn.params, distributions=drawn.distributions)
        )
    found = overview(opened)
    assert found.best.number == 7  # 4 and 5 have not ended
    assert [each.number for each in found.front[:2]] == [7, 8]
    assert found.best.number in {trial.number for trial in opened.study.best_trials}
    held = found.as_json()
    assert (held["best"]["number"], held["best"]["value"]) == (7, 0.95)
    with pytest.raises(ValueError, match="give --trial, one of 7 "):
        chosen_outcome(found, None)


def test_two_objectives_ask_for_a_trial(two):
    found = overview(two)
    with pytest.raises(ValueError, match="two objectives") as caught:
        chosen_outcome(found, None)
    first = found.front[0]
    assert f"give --trial, one of {first.number} (validation accuracy {100 * first.values[0]:.2f} %" in str(
        caught.value
    )
    assert chosen_outcome(found, 3).number == 3


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (99, "the study has 32 trials, numbered from 0"),
        (30, r"it is failed \(out of memory\); choose another"),
        (31, "it is still running; choose another"),
    ],
)
def test_trials_that_have_no_result_are_refused(one, number, says):
    with pytest.raises(ValueError, match=f"--trial {number}: {says}"):
        chosen_outcome(overview(one), number)


def test_the_best_trial_is_a_complete_experiment_file(one):
    found = overview(one)
    best = chosen_outcome(found, None)
    text = chosen_toml(chosen_experiment(one.facts.spec(), found, best), found, best, Path("study"), 3)
    made = experiment(tomllib.loads(text), "mine.toml")
    drawn = best.parameters
    assert made.name == f"fashion/fixed-trial-{best.number}"
    assert (made.net.beta, made.net.theta, made.train.lr) == (drawn["net.beta"], drawn["net.theta"], drawn["train.lr"])
    assert (made.seed, made.train.epochs) == (best.number, 3)
    assert made.sources["train.lr"] == f"trial {best.number} of fashion/fixed: from 0.0001 to 0.03, log"
    assert made.sources["net.steps"] == preset("fashion/fixed").sources["net.steps"]
    assert text.startswith(
        f"# Trial {best.number} of the search fashion/fixed (30 trials complete): validation accuracy"
    )


def test_annealed_layers_keep_their_ranges_as_sources(tmp_path):
    opened = small_study(tmp_path, "shd/annealed", trials=3)
    found = overview(opened)
    made = chosen_experiment(opened.facts.spec(), found, chosen_outcome(found, 1))
    assert all(isinstance(theta, Rise) and theta.stop > theta.start for theta in made.net.theta)
    assert "0.rate from 3e-06 to 0.1, log; 0.rise from 0.5 to 50, log" in made.sources["net.theta"]


def test_a_longer_training_takes_the_same_course():
    spec = with_values(preset("shd/annealed"), ["train.epochs=10"])
    longer = stretched(spec, 40)
    assert (longer.train.epochs, longer.train.half_period) == (40, 4 * 2604)
    for before, after in zip(spec.net.theta, longer.net.theta, strict=True):
        assert after.schedule()(4000) == pytest.approx(before.schedule()(1000), rel=1e-9)
    lines = with_values(preset("shd/fixed"), ["net.theta={start=1.0, stop=2.0, steps=100}"])
    assert stretched(lines, 250).net.theta.steps == 50
    assert stretched(spec, 10) == spec


def test_only_the_epochs_change_without_scale(one):
    found = overview(one)
    spec = one.facts.spec()
    outcome = chosen_outcome(found, None)
    plain = chosen_experiment(spec, found, outcome, epochs=110)
    scaled = chosen_experiment(spec, found, outcome, epochs=110, scale=True)
    assert plain.train.epochs == scaled.train.epochs == 110
    assert plain.train.half_period == spec.train.half_period
    assert scaled.train.half_period == round(spec.train.half_period * 110 / 3)


def test_spread_and_ends_of_ranges(one):
    trials = overview(one).trials
    axes = {axis.name: axis for axis in trials.axes}
    low, _, high = spread(trials, axes["train.lr"]).partition(" to ")
    assert 1e-4 < float(low) < 10**-2.5 < float(high) < 3e-2
    assert spread(trials, axes["net.norm"]).startswith(("step", "none"))
    assert narrow_ranges(trials) == []


def test_a_range_with_its_best_trials_at_an_end_is_named(tmp_path):
    trials = overview(small_study(tmp_path, "mnist/theta1", trials=60)).trials
    axis = next(axis for axis in trials.axes if axis.name == "net.slope")
    for row in trials.ranked()[:6]:
        axis.values[row] = 19.9
    assert narrow_ranges(trials) == [
        "net.slope: 6 of the best 10 trials are at 20, an end of the range; better ones may lie beyond it"
    ]
