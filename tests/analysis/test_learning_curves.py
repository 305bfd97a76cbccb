"""The picture of how a run learnt."""

import math

from bitspike.analysis.learning_curves import draw_learning_curves, learning_curves


def rows(epochs, *, on="valid", shift=0.0):
    return [
        {
            "epoch": epoch,
            "train_loss": 1 / epoch,
            "train_accuracy": 1 - 1 / (epoch + 1),
            f"{on}_loss": 2 / epoch + shift,
            f"{on}_accuracy": 0.5,
            "theta": [float(epoch), 2.0, 3.0],
            "spikes": [100.0 - epoch, 50.0, 7.0],
        }
        for epoch in range(1, epochs + 1)
    ]


def test_each_panel_has_its_figures():
    panels = learning_curves([rows(3), rows(2, shift=1.0)])
    named = {name: {curve.name: curve.trials for curve in curves} for name, curves in panels.items()}
    assert named["accuracy, %"] == {
        "training": [[50.0, 100 * (1 - 1 / 3), 75.0], [50.0, 100 * (1 - 1 / 3)]],
        "validation": [[50.0] * 3, [50.0] * 2],
    }
    assert named["loss"]["validation"] == [[2.0, 1.0, 2 / 3], [3.0, 2.0]]
    assert named["threshold"] == {
        "layer 1": [[1.0, 2.0, 3.0], [1.0, 2.0]],
        "layer 2": [[2.0] * 3, [2.0] * 2],
        "output": [[3.0] * 3, [3.0] * 2],
    }
    assert named["spikes a sample"]["layer 1"][0] == [99.0, 98.0, 97.0]
    assert [curve.name for curve in learning_curves([rows(2, on="test")])["loss"]] == ["training", "test"]


def test_an_output_that_never_fires_has_no_threshold_and_no_spikes(tmp_path):
    panels = learning_curves([rows(3)], output_fires=False)
    assert [curve.name for curve in panels["threshold"]] == ["layer 1", "layer 2"]
    assert [curve.name for curve in panels["spikes a sample"]] == ["layer 1", "layer 2"]
    alone = [{**row, "theta": [1.0], "spikes": [0.0]} for row in rows(3)]
    picture = draw_learning_curves([alone], tmp_path / "alone.png", "one layer", output_fires=False)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_pictures_of_a_run_and_of_trials(tmp_path):
    one = draw_learning_curves([rows(4)], tmp_path / "one.png", "a title, $_$", chosen=3)
    again = draw_learning_curves([rows(4)], tmp_path / "again.png", "a title, $_$", chosen=3)
    assert one.read_bytes() == again.read_bytes()
    assert one.read_bytes().startswith(b"\x89PNG")
    bad = rows(3)
    bad[1]["train_loss"] = math.nan
    assert draw_learning_curves([rows(25), bad], tmp_path / "both.png", "trials").stat().st_size > 10_000
