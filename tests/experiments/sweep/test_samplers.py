"""Draws follow from the study's seed, the trial's number and the parameter's name, whoever draws."""

import optuna
import pytest

from bitspike.experiments.sweep.samplers import SAMPLERS, NumberedSampler, make_pruner


def drawn(trial):
    return [trial.suggest_float(name, 0, 1) for name in ("a", "b")] + [trial.suggest_categorical("c", ["x", "y"])]


def value(params):
    return (params["a"] - 0.3) ** 2 + params["b"]


def study(kind="tpe", seed=0, objectives=1):
    return optuna.create_study(sampler=NumberedSampler(kind, seed), directions=["minimize"] * objectives)


def run(kind, seed, trials, objectives=1):
    made = study(kind, seed, objectives)
    for _ in range(trials):
        trial = made.ask()
        drawn(trial)
        made.tell(trial, [value(trial.params)] * objectives)
    return [trial.params for trial in made.trials]


@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_same_seed_draws_the_same_trials(kind):
    assert run(kind, 0, 14) == run(kind, 0, 14)
    assert run(kind, 0, 3) != run(kind, 1, 3)
    params = run(kind, 0, 14)
    assert len({trial["a"] for trial in params}) == len({trial["b"] for trial in params}) > 10


@pytest.mark.parametrize("kind", SAMPLERS)
def test_two_objectives(kind):
    assert len(run(kind, 0, 12, objectives=2)) == 12


@pytest.mark.parametrize("trials", [0, 12])  # random draws at first, and draws that learn from others
def test_a_draw_that_another_process_goes_on_with_is_the_same(trials):
    whole = run("tpe", 0, trials + 1)[-1]
    made = study()
    for _ in range(trials):
        trial = made.ask()
        drawn(trial)
        made.tell(trial, value(trial.params))
    trial = made.ask()
    trial.suggest_float("a", 0, 1)  # and then it dies
    again = optuna.Trial(made, trial._trial_id)
    drawn(again)
    assert again.params == whole


def test_workers_at_once_draw_different_trials():
    made = study()
    for _ in range(12):
        trial = made.ask()
        drawn(trial)
        made.tell(trial, value(trial.params))
    trials = [made.ask() for _ in range(4)]
    assert len({drawn(trial)[0] for trial in trials}) == 4


def test_pruners():
    assert isinstance(make_pruner("none", 5), optuna.pruners.NopPruner)
    assert isinstance(make_pruner("median", 5), optuna.pruners.MedianPruner)
    assert isinstance(make_pruner("hyperband", 5), optuna.pruners.HyperbandPruner)
