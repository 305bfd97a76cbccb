"""`bitspike evaluate` and `load_run`: the trained network of a run's folder."""

import json

import pytest
import torch

import bitspike
from bitspike.data.datasets import open_dataset
from bitspike.experiments.schema import read_experiment
from helpers.own_images import NO_BOARD, TEST, TRAIN, VALID, metrics, settings, summary_of
from helpers.runs import write_event_experiment


def test_load_run_gives_the_network_of_the_summary(done):
    run, _ = done
    summary = summary_of(run)
    net = bitspike.load_run(run)
    assert not net.training
    assert [float(layer.lif.theta) for layer in net.layers] == pytest.approx(list(summary["theta"].values()))
    images, labels = open_dataset(read_experiment(run / "experiment.toml").data).test.batch(torch.arange(TEST))
    predicted = net(images).spikes.sum(0).argmax(1)
    assert (predicted == labels).double().mean().item() == pytest.approx(summary["accuracy"])
    assert net(images).spikes.shape == (6, TEST, 3)


def test_final_thresholds_are_kept_where_they_were_evaluated(here, cli):
    assert cli("train", "mine.toml", *settings("train.evaluate_theta=final"), *NO_BOARD)[0] == 0
    assert [float(layer.lif.theta) for layer in bitspike.load_run("runs/mine").layers] == [4.0, 4.0]
    assert metrics("runs/mine")[0]["theta"][0] < 4
    assert json.loads(cli("evaluate", "runs/mine", "--json")[1])["accuracy"] == summary_of("runs/mine")["accuracy"]


@pytest.mark.parametrize(("split", "samples"), [("test", TEST), ("valid", VALID), ("train", TRAIN)])
def test_evaluate_on_each_split(done, cli, split, samples):
    run, _ = done
    status, out, _ = cli("evaluate", run, "--split", split, "--json")
    assert status == 0
    result, summary = json.loads(out), summary_of(run)
    assert (result["split"], result["samples"]) == (split, samples)
    assert sum(count for _, count in result["correct_by_label"].values()) == samples
    right = sum(right for right, _ in result["correct_by_label"].values())
    assert result["accuracy"] == pytest.approx(right / samples)
    if split == "test":
        assert (result["accuracy"], result["loss"]) == (summary["accuracy"], summary["test_loss"])
    if split == "valid":
        best = metrics(run)[summary["best_epoch"] - 1]
        assert (result["accuracy"], result["loss"]) == (best["valid_accuracy"], best["valid_loss"])
        assert (result["dead"], result["spikes"]) == (best["dead"], best["spikes"])


def test_evaluate_in_words(done, cli):
    run, _ = done
    status, out, _ = cli("evaluate", run)
    assert status == 0
    assert f"accuracy  {summary_of(run)['accuracy']:.2%} of {TEST}" in out
    assert "layers.1.lif" in out
    assert "by class" not in out, "its labels would be the numbers of outputs"
    recalls = [
        f"{right / count:.1%}"
        for right, count in json.loads(cli("evaluate", run, "--json")[1])["correct_by_label"].values()
    ]
    table = out[out.index("class   precision") :].splitlines()[1:4]
    assert [line.split()[2] for line in table] == recalls


def test_evaluate_tells_the_figures_of_each_class(done, cli):
    run, _ = done
    status, out, _ = cli("evaluate", run)
    assert status == 0
    for text in ("balanced accuracy ", "macro F1 ", "class   precision  recall      F1  samples", "confusion matrix: "):
        assert text in out
    assert "no calibration: the count loss trains numbers of spikes" in out
    assert "logistic" not in out
    result = json.loads(cli("evaluate", run, "--json")[1])
    assert [(each["label"], each["name"], each["support"]) for each in result["classes"]] == [
        (label, str(label), 5) for label in range(3)
    ]
    right = sum(result["confusion"][label][label] for label in range(3))
    assert result["accuracy"] == pytest.approx(right / TEST)
    assert sum(map(sum, result["confusion"])) + sum(result["no_answer"]) == TEST
    assert sum(result["no_answer"]) == pytest.approx(result["unanswered"] * TEST)
    by_label = {int(label): right / all_ for label, (right, all_) in result["correct_by_label"].items()}
    assert {each["label"]: each["recall"] for each in result["classes"]} == by_label
    assert result["balanced_accuracy"] == pytest.approx(sum(by_label.values()) / 3)
    assert (result["calibration"], result["baselines"]) == (None, None)


@pytest.mark.parametrize("readout", ["spikes", "membrane"])
def test_calibration_is_that_of_the_logits_of_the_loss(readout, here, cli):
    chosen = settings("train.loss=cross_entropy", "train.logit_scale=3", f"net.readout={readout}")
    assert cli("train", "mine.toml", "--epochs", 1, *chosen, *NO_BOARD)[0] == 0
    result = json.loads(cli("evaluate", "runs/mine", "--json")[1])
    images, labels = open_dataset(read_experiment(here / "runs/mine/experiment.toml").data).test.batch(
        torch.arange(TEST)
    )
    with torch.no_grad():
        sure, answers = (3 * bitspike.load_run("runs/mine").scores(images)).softmax(1).max(1)
    assert result["calibration"]["confidence"] == pytest.approx(sure.mean().item(), abs=1e-6)
    assert sum(each["samples"] for each in result["calibration"]["bins"]) == TEST
    right = sum(result["confusion"][label][label] for label in range(3))
    assert result["accuracy"] == pytest.approx(right / TEST)
    assert readout == "spikes" or right == (answers == labels).sum()
    assert "calibration error " in cli("evaluate", "runs/mine")[1]


def test_baselines_are_those_of_the_training_samples(done, cli):
    run, _ = done
    status, out, _ = cli("evaluate", run, "--baselines")
    assert status == 0
    assert "baselines most frequent class 33.33%   logistic regression 100.00% (on pixels, 16 numbers a sample)" in out
    result = json.loads(cli("evaluate", run, "--baselines", "--split", "train", "--json")[1])
    assert result["baselines"]["majority"] == pytest.approx(12 / TRAIN)
    assert result["baselines"].keys() == {"majority", "logistic", "features", "penalty"}


def test_the_confusion_matrix_as_a_picture(done, cli, workplace):
    run, _ = done
    status, out, _ = cli("evaluate", run, "--out", "matrix.png")
    assert status == 0
    assert "the confusion matrix is drawn in matrix.png" in out
    assert (workplace / "matrix.png").read_bytes().startswith(b"\x89PNG")
    status, out, err = cli("evaluate", run, "--out", "matrix.svg")
    assert (status, out) == (1, "")
    assert err == "bitspike: --out matrix.svg: the picture is a PNG file; give it a name that ends in .png\n"


def test_steps_are_those_of_the_samples(workplace, cli):
    write_event_experiment(workplace, samples=30)
    assert cli("train", "events.toml", "--epochs", 1, *NO_BOARD)[0] == 0
    result = json.loads(cli("evaluate", "runs/events", "--json")[1])
    assert result["steps"] == 10


def test_labels_that_are_times_have_no_classes(workplace, cli):
    assert cli("train", "coding/annealed", "--epochs", 1, *NO_BOARD)[0] == 0
    status, out, _ = cli("evaluate", "runs/coding-annealed")
    assert status == 0
    assert "confusion" not in out
    assert not {"confusion", "macro_f1"} & json.loads(cli("evaluate", "runs/coding-annealed", "--json")[1]).keys()
    _, _, err = cli("evaluate", "runs/coding-annealed", "--out", "c.png")
    assert "has no classes, so there is no confusion matrix; leave it out" in err
    _, _, err = cli("evaluate", "runs/coding-annealed", "--baselines")
    assert err == "bitspike: --baselines: they classify, but a label of coding is a time; leave it out\n"


def test_evaluate_for_longer_and_shorter(done, cli):
    run, _ = done
    spikes = {}
    for steps in (1, 6, 60):
        result = json.loads(cli("evaluate", run, "--steps", steps, "--json")[1])
        assert result["steps"] == steps
        spikes[steps] = sum(result["spikes"])
    assert spikes[1] < spikes[6] < spikes[60]
    assert spikes[6] == sum(json.loads(cli("evaluate", run, "--json")[1])["spikes"])


def test_evaluate_writes_no_empty_line_into_a_log(done, cli):
    assert cli("evaluate", done[0], "--json")[2] == ""


def test_a_run_of_the_paper_protocol_has_no_valid_split(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *settings("train.protocol=paper"), *NO_BOARD)
    status, _, err = cli("evaluate", "runs/mine", "--split", "valid")
    assert status == 1
    assert "protocol 'paper', which has no 'valid' split; use test or train" in err


def test_a_run_without_weights(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    (here / "runs" / "mine" / "best.safetensors").unlink()
    status, _, err = cli("evaluate", "runs/mine")
    assert status == 1
    assert "best.safetensors does not exist; has the run finished its first epoch?" in err
    with pytest.raises(FileNotFoundError, match=r"best\.safetensors does not exist"):
        bitspike.load_run("runs/mine")


def test_weights_of_another_network(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    cli("train", "mine.toml", "--epochs", 1, "--out", "other", *settings("net.notation=16-9-3"), *NO_BOARD)
    (here / "other" / "best.safetensors").replace(here / "runs" / "mine" / "best.safetensors")
    status, _, err = cli("evaluate", "runs/mine")
    assert status == 1
    assert "best.safetensors holds another network: layers." in err


@pytest.mark.parametrize("folder", [".", "nowhere", "mine.toml"])
def test_a_folder_that_is_no_run(folder, here, cli):
    status, out, err = cli("evaluate", folder)
    assert (status, out) == (1, "")
    assert err.strip() == f"bitspike: {folder} holds no run: there is no experiment.toml in it, nor in trial-*"
