"""curves.png and baselines.json in the folder of a run, and of trials."""

import json

import pytest

from bitspike.experiments import curves
from helpers.own_images import NO_BOARD, TEST, TRAIN, summary_of, write_experiment


@pytest.fixture
def here(workplace):
    write_experiment(workplace)
    return workplace


def test_one_picture_for_all_trials(here, cli):
    status, _, err = cli("train", "mine.toml", "--epochs", 2, "--trials", 2, "--baselines", *NO_BOARD)
    assert status == 0, err
    out = here / "runs" / "mine"
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in out.iterdir()} == {
        "trial-0", "trial-1", "summary.json", "curves.png", "baselines.json",
    }  # fmt: skip
    assert not list(out.glob("trial-*/*.png"))
    assert err.count("logistic regression 100.00%") == 1, "trials share their data"


def test_a_single_epoch_is_no_curve(here, cli):
    assert cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)[0] == 0
    assert not (here / "runs" / "mine" / "curves.png").exists()
    assert cli("train", "mine.toml", "--epochs", 3, "--resume", *NO_BOARD)[0] == 0
    assert (here / "runs" / "mine" / "curves.png").exists()


def test_without_matplotlib_there_is_no_picture_and_no_word(here, cli, monkeypatch):
    monkeypatch.setattr(curves.importlib.util, "find_spec", lambda name: None)
    status, _, err = cli("train", "mine.toml", "--epochs", 2, *NO_BOARD)
    assert status == 0
    assert "curves" not in err
    assert not (here / "runs" / "mine" / "curves.png").exists()


def test_a_picture_that_cannot_be_written_ends_no_run(here, cli, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(curves, "draw_learning_curves", full)
    status, out, err = cli("train", "mine.toml", "--epochs", 2, "--json", *NO_BOARD)
    assert status == 0
    assert json.loads(out) == summary_of(here / "runs" / "mine")
    assert err.splitlines()[-1] == "warning: curves.png was not drawn: no space left on device"


def test_baselines_are_shown_and_kept(here, cli):
    status, out, err = cli("train", "mine.toml", "--epochs", 1, "--baselines", *NO_BOARD)
    assert status == 0
    line = "most frequent class 33.33%   logistic regression 100.00% (on pixels, 16 numbers a sample)"
    assert err.index(f"baselines: {line}") < err.index("epoch   1")
    assert f"  baselines: {line}\n" in out
    kept = json.loads((here / "runs" / "mine" / "baselines.json").read_text())
    assert (kept["split"], kept["majority"], kept["logistic"]) == ("test", pytest.approx(1 / 3), 1.0)
    assert kept["samples"] == {"train": TRAIN, "test": TEST}
    before = {path: path.read_bytes() for path in (here / "runs" / "mine").iterdir()}
    status, _, err = cli("train", "mine.toml", "--epochs", 1, "--baselines", "--resume", *NO_BOARD)
    assert status == 0
    assert "nothing was trained, so no baselines were computed: bitspike evaluate runs/mine --baselines does" in err
    assert {path: path.read_bytes() for path in (here / "runs" / "mine").iterdir()} == before


def test_baselines_change_no_number_of_the_run(here, cli):
    assert cli("train", "mine.toml", "--epochs", 2, *NO_BOARD)[0] == 0
    status, out, _ = cli("train", "mine.toml", "--epochs", 2, "--baselines", "--out", "with", "--json", *NO_BOARD)
    assert status == 0
    one, two = ((here / path / "best.safetensors").read_bytes() for path in ("runs/mine", "with"))
    assert one == two
    assert summary_of(here / "with")["results_sha256"] == summary_of(here / "runs" / "mine")["results_sha256"]
    assert json.loads(out)["baselines"]["logistic"] == 1.0


def test_baselines_of_times_are_refused_before_anything_is_trained(workplace, cli):
    status, out, err = cli("train", "coding/annealed", "--baselines")
    assert (status, out) == (1, "")
    assert err == "bitspike: --baselines: they classify, but a label of coding is a time; leave it out\n"
    assert not (workplace / "runs").exists()
