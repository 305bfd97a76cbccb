"""What a checkpoint says of the run is believed only if all of it agrees."""

import pytest

from bitspike.train.restore import progress_from

ROW = {
    "epoch": 1,
    "step": 6,
    "lr": 0.1,
    "train_loss": 1.0,
    "train_accuracy": 0.5,
    "valid_loss": 1.0,
    "valid_accuracy": 0.5,
    "theta": [1.0, 2.0],
    "dead": [0.0, 0.5],
    "spikes": [3.0, 4.0],
}
SAVED = {"epoch": 1, "iteration": 2, "step": 8, "best_epoch": 1, "improved_epoch": 1, "rows": [ROW]}


def restored(**changes):
    return progress_from(SAVED | changes, iterations=6, layers=2, chosen_on="valid")


def test_counts_that_agree_are_taken():
    progress = restored()
    assert (progress.epoch, progress.iteration, progress.step) == (1, 2, 8)
    assert restored(iteration=6, step=12).step == 12  # an epoch that is over, before it is counted


def test_warnings_of_an_earlier_version_count_from_the_beginning():
    assert restored(warnings=["a", "b"]).warned_at == [0, 0]
    assert restored(warnings=["a", "b"], warned_at=[0, 8]).warned_at == [0, 8]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"step": 7}, "progress.step must be 1 epochs of 6 iterations and 2, but is 7"),
        ({"step": 9}, "progress.step must be"),
        ({"iteration": 3}, "progress.step must be"),
        ({"iteration": 7, "step": 13}, "progress.step must be"),
        ({"iteration": -1, "step": 5}, "progress.iteration must be a whole number >= 0"),
        ({"step": 8.0}, "progress.step must be a whole number"),
        ({"best_epoch": 2}, "progress.best_epoch must be one of 1 epochs"),
        ({"improved_epoch": 2}, "progress.best_epoch must be one of 1 epochs"),
        ({"best_accuracy": True}, "progress.best_accuracy must be a number"),
        ({"seconds": float("inf")}, "must be a finite number"),
        ({"warnings": [1]}, "progress.warnings must be a list of str"),
        ({"warnings": ["a"], "warned_at": []}, "progress.warned_at must be an iteration up to 8 for each warning"),
        ({"warnings": ["a"], "warned_at": [9]}, "progress.warned_at must be an iteration up to 8"),
        ({"warnings": ["a"], "warned_at": [-1]}, "progress.warned_at must be an iteration"),
        ({"warnings": ["a"], "warned_at": [True]}, "progress.warned_at must be an iteration"),
        ({"warnings": ["a"], "warned_at": {"a": 1}}, "progress.warned_at must be an iteration"),
        ({"rows": []}, "a row for each of 1 epochs, not 0"),
        ({"rows": [ROW | {"step": 5}]}, "the row of epoch 1"),
        ({"rows": [ROW | {"dead": [0.0]}]}, "the row of epoch 1"),
        ({"rows": [ROW | {"valid_loss": "1"}]}, "the row of epoch 1"),
    ],
)
def test_counts_that_disagree_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        restored(**changes)
