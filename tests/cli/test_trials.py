"""`bitspike train --trials`: several seeds, and their sum."""

import json
import statistics

import pytest

from helpers.own_images import NO_BOARD, metrics, summary_of


def test_trials_have_seeds_of_their_own_and_are_summed_up(here, cli):
    status, out, _ = cli("train", "mine.toml", "--trials", 3, "--seed", 4, "--out", "three", "--json", *NO_BOARD)
    assert status == 0
    together = json.loads(out)
    each = [summary_of(f"three/trial-{trial}") for trial in range(3)]
    accuracies = [summary["accuracy"] for summary in each]
    assert together == summary_of("three")
    assert together["seeds"] == [summary["seed"] for summary in each] == [4, 5, 6]
    assert together["accuracies"] == accuracies
    assert together["best"] == max(accuracies)
    assert together["mean"] == pytest.approx(sum(accuracies) / 3)
    assert together["sigma"] == pytest.approx(statistics.stdev(accuracies))
    losses = {metrics(f"three/trial-{trial}")[0]["train_loss"] for trial in range(3)}
    assert len(losses) == 3


def test_a_trial_is_the_run_of_its_seed(here, cli):
    cli("train", "mine.toml", "--trials", 2, "--out", "two", *NO_BOARD)
    cli("train", "mine.toml", "--seed", 1, "--out", "one", *NO_BOARD)
    untimed = [
        [{k: v for k, v in row.items() if k != "timing"} for row in metrics(run)] for run in ("two/trial-1", "one")
    ]
    assert untimed[0] == untimed[1]


def test_trials_are_shown_as_best_mean_and_sigma(here, cli):
    _, out, _ = cli("train", "mine.toml", "--trials", 2, "--epochs", 1, *NO_BOARD)
    summary = summary_of("runs/mine")
    figures = [f"{word} {100 * summary[word]:.2f}" for word in ("best", "mean", "sigma")]
    assert "  ".join(figures) in out
    assert "(seeds 0, 1;" in out


def test_one_trial_has_no_sigma(here, cli):
    _, out, _ = cli("train", "mine.toml", "--trials", 1, "--epochs", 1, "--json", *NO_BOARD)
    assert json.loads(out)["sigma"] is None


def test_of_trials_the_one_chosen_on_validation_is_evaluated(here, cli):
    cli("train", "mine.toml", "--trials", 3, "--epochs", 1, "--out", "three", *NO_BOARD)
    _, out, _ = cli("evaluate", "three", "--json")
    best = max(range(3), key=lambda trial: metrics(f"three/trial-{trial}")[0]["valid_accuracy"])
    assert json.loads(out)["run"] == f"three/trial-{best}"
    assert json.loads(out)["accuracy"] == summary_of(f"three/trial-{best}")["accuracy"]


def test_trials_do_not_go_into_the_folder_of_a_run(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    before = summary_of("runs/mine")
    assert cli("train", "mine.toml", "--epochs", 1, "--trials", 2, *NO_BOARD)[0] == 1
    assert summary_of("runs/mine") == before
