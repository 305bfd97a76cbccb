"""What the commands refuse, in one line and with a status."""

import os
from pathlib import Path

import pytest
import torch

from bitspike.experiments import kept_data
from helpers.files import event_arrays, write_npz
from helpers.own_images import NO_BOARD, TOML, settings


def test_holdout_without_validation_samples_is_refused(here, cli):
    status, _, err = cli("train", "mine.toml", *settings("data.validation_share=0"), *NO_BOARD)
    assert status == 1
    assert "judges epochs by these samples; give it a share, or set train.protocol to 'paper'" in err
    assert not (here / "runs" / "mine").exists()


def test_a_folder_with_a_run_is_not_written_over(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    before = (here / "runs" / "mine" / "summary.json").read_bytes()
    status, out, err = cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    assert (status, out) == (1, "")
    assert err == "bitspike: runs/mine holds a run already; add --resume to go on with it, or choose another --out\n"
    assert (here / "runs" / "mine" / "summary.json").read_bytes() == before


@pytest.mark.parametrize("out", ["taken", "taken/run"])
@pytest.mark.parametrize("more", [(), ("--resume",), ("--trials", 2)])
def test_an_out_that_is_a_file_is_told_before_anything_is_read(out, more, here, cli, monkeypatch):
    (here / "taken").write_text("mine")
    monkeypatch.setattr(kept_data, "dataset_of", lambda *_, **__: pytest.fail("read"))
    status, _, err = cli("train", "mine.toml", "--out", out, *more)
    assert status == 1
    assert err.endswith("taken is a file, but a folder is needed; choose another --out\n")
    assert (here / "taken").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_read(here, cli, monkeypatch):
    (here / "closed").mkdir(mode=0o555)
    monkeypatch.setattr(kept_data, "dataset_of", lambda *_, **__: pytest.fail("read"))
    if os.geteuid() == 0:  # who may write anywhere
        monkeypatch.setattr("bitspike.files.os.access", lambda path, mode: Path(path).name != "closed")
    status, _, err = cli("train", "mine.toml", "--out", "closed/run")
    assert status == 1
    assert err == f"bitspike: {here / 'closed'} cannot be written into; choose another --out, or make it writable\n"


def test_a_run_in_a_folder_that_cannot_be_written_is_read(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    run = here / "runs" / "mine"
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for path in (*run.iterdir(), run):
        path.chmod(0o555 if path == run else 0o444)
    try:
        assert cli("evaluate", "runs/mine")[0] == 0
        assert cli("train", "mine.toml", "--epochs", 1, "--resume", *NO_BOARD)[0] == 0
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    finally:
        run.chmod(0o755)


def test_a_folder_with_other_things_is_not_written_into(here, cli):
    status, _, err = cli("train", "mine.toml", "--out", ".")
    assert status == 1
    assert err == "bitspike: . is not empty and holds no run; choose another --out\n"
    assert not (here / "experiment.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "mnist/anealed"], "no preset is named 'mnist/anealed'; did you mean 'mnist/annealed'?"),
        (
            ["train", "gone.toml"],
            "gone.toml does not exist; bitspike preset list shows the experiments that are built in",
        ),
        (["train", "mine.toml", "--set", "train.ephocs=3"], "did you mean 'train.epochs'?"),
        (["train", "mine.toml", "--set", "train.epochs"], "write key=value, such as train.epochs=5"),
        (["train", "mnist/annealed"], "data set 'mnist' is not here; run: bitspike data fetch mnist"),
        (["preset", "show", "mnist"], "no preset is named 'mnist'"),
        (["data", "info", "mnits"], "unknown data set 'mnits': did you mean 'mnist'?"),
        (["data", "info", "coding", "--set", "bin_mss=3"], "no field is named 'bin_mss'; did you mean 'bin_ms'?"),
        (["data", "verify", "shd"], "data set 'shd' is not here"),
    ],
)
def test_mistakes_end_in_one_line_and_a_status(arguments, says, here, cli):
    status, out, err = cli(*arguments)
    assert (status, out) == (1, "")
    assert len(err.strip().splitlines()) == 1
    assert err.strip().startswith("bitspike: ")
    assert says in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "mine.toml", "--epochs", "0"],
        ["train", "mine.toml", "--trials", "0"],
        ["train", "mine.toml", "--seed", "-1"],
        ["train", "mine.toml", "--device", "tpu"],
        ["train", "mine.toml", "--epoch", "3"],
        ["evaluate", "runs/mine", "--split", "all"],
        ["trian"],
    ],
)
def test_wrong_usage_is_status_2(arguments, here, cli):
    assert cli(*arguments)[0] == 2
    assert not (here / "runs").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", [["train", "mine.toml"], ["evaluate", "run"]])
def test_a_gpu_that_is_not_there(command, here, cli):
    status, _, err = cli(*command, "--device", "cuda")
    assert status == 1
    assert "--device cuda: PyTorch sees no GPU here; use --device cpu" in err
    assert not (here / "runs").exists()


def test_debugging_shows_where_an_error_comes_from(here, cli, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DEBUG", "1")
    with pytest.raises(ValueError, match="no preset is named"):
        cli("train", "nothing")


def test_binned_events_are_kept_in_the_data_root(here, cli, tmp_path):
    write_npz(here / "train.npz", **event_arrays(12))
    (here / "mine.toml").write_text(
        TOML.replace('test_file = "test.npz"', "bin_ms = 2\nsteps = 5").replace("16-", "72-").replace("\nsteps = 6", "")
    )
    assert cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)[0] == 0
    assert len(list((tmp_path / "root" / "cache").glob("*.safetensors"))) == 1


def test_preset_show_checks_a_file(here, cli):
    assert cli("preset", "show", "mine.toml")[0] == 0
    (here / "mine.toml").write_text(TOML.replace("beta", "betta"))
    status, _, err = cli("preset", "show", "mine.toml")
    assert status == 1
    assert "mine.toml: " in err
    assert "no field is named 'net.betta'; did you mean 'net.beta'?" in err
