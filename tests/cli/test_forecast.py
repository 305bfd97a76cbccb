"""How long a training will take, as it is told after the first iterations."""

import json

import pytest
import torch

from bitspike.cli.forecast import Forecast
from bitspike.data import Images
from bitspike.data.samples import Dataset
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import with_values
from helpers.own_images import NO_BOARD, summary_of


def forecast(device="cpu", epochs=100, train=1000, test=100, runs=1, protocol="paper"):
    changes = [f"train.epochs={epochs}", f"train.protocol={protocol}"]
    spec = with_values(preset("mnist/annealed"), changes)
    part = [Images(torch.zeros(n, 1), torch.zeros(n, dtype=torch.int64)) for n in (train, test)]
    return Forecast(spec, Dataset("mnist", "MNIST", 10, *part), device, runs)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("bitspike.cli.forecast.time.monotonic", lambda: now[0])
    return now


def lines_of(ahead, clock, iterations, seconds, looked=lambda k: False):
    said = [ahead.begins(1, iterations, 0)]
    for k in range(iterations):
        clock[0] += seconds(k)
        said.append(ahead.iteration(looked(k)))
    return [line for line in said if line]


def test_a_long_training_on_a_cpu_says_how_long_and_names_a_shorter_way(clock):
    said = lines_of(forecast(), clock, 400, lambda k: 30.0 if k == 0 else 2.0)
    assert said == [
        "100 epochs of 400 iterations",
        "about 23 hours to go, 14 minutes an epoch on this CPU; a GPU takes far less; "
        "for a first look: bitspike train mnist/quick, or --epochs 1 (14 minutes)",
    ]


def test_a_short_training_says_how_long_only(clock):
    said = lines_of(forecast(epochs=3), clock, 400, lambda k: 0.01)
    assert said == ["3 epochs of 400 iterations", "about 12 s to go, 4 s an epoch"]


def test_trials_in_turn_are_all_counted(clock):
    said = lines_of(forecast(epochs=3, runs=5), clock, 400, lambda k: 0.1)
    assert said == ["3 epochs of 400 iterations, 5 runs", "about 10 minutes to go, 41 s an epoch"]


def test_on_a_gpu_only_the_times_between_looks_count(clock):
    """Launches take no time; the first look waits for compilers."""
    looked = lambda k: k == 0 or (k + 1) % 20 == 0  # noqa: E731
    said = lines_of(forecast("cuda"), clock, 400, lambda k: 60 if k == 0 else 0.2 if looked(k) else 0.0, looked)
    assert said == ["100 epochs of 400 iterations", "about 7 minutes to go, 4 s an epoch"]


def test_an_evaluation_takes_a_third_for_each_sample_that_judges():
    labels = torch.arange(100) % 4
    groups = torch.arange(100) // 40  # 40, 40 and 20 samples
    images = Images(torch.zeros(100, 1), labels, groups)
    spec = with_values(preset("mnist/annealed"), ["train.protocol=holdout", "data.repeat=2"])
    by_group = Forecast(spec, Dataset("mine", "Mine", 4, images, images, group_names="groups"), "cpu")
    assert by_group.evaluation == pytest.approx(20 / (2 * 80) / 3)
    valid = images.select(torch.arange(50))
    by_file = Forecast(spec, Dataset("mine", "Mine", 4, images, images, valid=valid), "cpu")
    assert by_file.evaluation == pytest.approx(50 / (2 * 100) / 3)
    paper = with_values(spec, ["train.protocol=paper"])
    by_test = Forecast(paper, Dataset("mine", "Mine", 4, images, valid), "cpu")
    assert by_test.evaluation == pytest.approx(50 / (2 * 100) / 3)


def test_a_resumed_run_counts_what_is_left(clock):
    ahead = forecast(epochs=10)
    assert ahead.begins(9, 100, 50) == "10 epochs of 100 iterations, from epoch 9 on"
    clock[0] += 1
    said = []
    for _ in range(30):
        clock[0] += 1.0
        said.append(ahead.iteration(False))
    assert [line for line in said if line] == ["about 2 minutes to go, 103 s an epoch"]


def test_epochs_of_few_iterations_are_timed_whole(clock):
    ahead = forecast(epochs=50)
    said = []
    for epoch in (1, 2, 3):
        said.append(ahead.begins(epoch, 3, 0))
        said += [ahead.iteration(False) for _ in range(3)]
        said.append(ahead.epoch_ends(0.5))
    assert [line for line in said if line] == ["50 epochs of 3 iterations", "about 24 s to go, 500 ms an epoch"]


def test_epochs_and_time_are_told_without_a_terminal(here, cli):
    status, out, err = cli("train", "mine.toml", "--epochs", 4, "--json", *NO_BOARD)
    assert status == 0
    assert json.loads(out) == summary_of("runs/mine")
    lines = err.splitlines()
    assert lines[2] == "4 epochs of 5 iterations"
    (said,) = [line for line in lines if line.startswith("about ")]
    assert lines[lines.index(said) - 1].startswith("epoch   2")


def test_resuming_nothing_is_told(here, cli):
    assert "nothing to resume" not in cli("train", "mine.toml", "--out", "plain", "--epochs", 1, *NO_BOARD)[2]
    _, _, err = cli("train", "mine.toml", "--resume", "--epochs", 1, *NO_BOARD)
    assert err.startswith("nothing to resume in runs/mine: a new run starts\n")
    assert "nothing to resume" not in cli("train", "mine.toml", "--resume", "--epochs", 2, *NO_BOARD)[2]
    assert "nothing to resume" not in cli("train", "mine.toml", "--resume", "--epochs", 2, *NO_BOARD)[2]  # complete
    err = cli("train", "mine.toml", "--resume", "--trials", 2, "--out", "two", "--epochs", 1, *NO_BOARD)[2]
    assert err.count("nothing to resume in two: a new run starts\n") == 1
    err = cli("train", "mine.toml", "--resume", "--trials", 3, "--out", "two", "--epochs", 1, *NO_BOARD)[2]
    assert "nothing to resume" not in err
