"""`bitspike predict`: what a run's network says of recordings."""

import json

import pytest
import torch
from typer.testing import CliRunner

import bitspike
from bitspike.cli import app
from bitspike.data.binning import bin_events
from bitspike.data.datasets import binning_of
from bitspike.data.speech.spike_files import DIGITS, read_spikes
from bitspike.experiments.schema import read_experiment
from helpers.spoken import write_shd, write_words
from helpers.wav import write_word


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs on spikes of 700 units: "own", on two words, and "shd", on twenty digits."""
    folder = tmp_path_factory.mktemp("spoken")
    for name, toml in (("own", write_words(folder)), ("shd", write_shd(folder, folder / "root"))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BITSPIKE_DATA", str(folder / "root"))
            made = CliRunner().invoke(app, ["train", str(toml), "--out", str(folder / name)])
        assert made.exit_code == 0, made.output
    return folder


@pytest.fixture
def spoken(workplace):
    """Two recordings."""
    write_word(workplace / "low.wav", seconds=0.2)
    write_word(workplace / "high.wav", seconds=0.2, pitch=300)
    return workplace


def test_the_answer_is_that_of_the_network(runs, spoken, cli):
    status, out, err = cli("predict", runs / "shd", "low.wav", "high.wav", "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)["recordings"]
    assert cli("encode", "low.wav", "high.wav", "--out", "both.npz")[0] == 0
    spec = read_experiment(runs / "shd" / "experiment.toml")
    frames = bin_events(read_spikes(spoken / "both.npz"), binning_of(spec.data))
    rates = bitspike.load_run(runs / "shd")(frames.batch(torch.arange(2))[0]).spikes.mean(0)
    for row, rate in zip(told, rates, strict=True):
        assert row["label"] == int(rate.argmax())
        assert row["answer"] == DIGITS[row["label"]]
        assert list(row["confidence"]) == list(DIGITS)
        assert list(row["confidence"].values()) == pytest.approx((10 * rate).softmax(0).tolist(), abs=1e-6)
    assert [row["file"] for row in told] == ["low.wav", "high.wav"]


def test_a_line_for_each_recording(runs, spoken, cli):
    status, out, _ = cli("predict", runs / "own", "low.wav", "high.wav")
    assert status == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["low.wav", "high.wav"]
    assert all("class 0" in line and "class 1" in line and "%" in line for line in lines)


@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_files_of_encode_give_what_their_recordings_give(runs, spoken, cli, ending):
    cli("encode", "low.wav", "high.wav", "--out", f"both.{ending}")
    cli("encode", "low.wav", "--out", f"low.{ending}")
    whole = json.loads(cli("predict", runs / "shd", "low.wav", "high.wav", "--json")[1])["recordings"]
    again = json.loads(cli("predict", runs / "shd", f"both.{ending}", f"low.{ending}", "--json")[1])["recordings"]
    assert [row["file"] for row in again] == [f"both.{ending}[0]", f"both.{ending}[1]", f"low.{ending}"]
    if ending == "npz":  # SHD's own layout rounds times
        assert [row["confidence"] for row in again] == [whole[i]["confidence"] for i in (0, 1, 0)]


def test_the_figure(runs, spoken, cli):
    status, out, _ = cli("predict", runs / "shd", "low.wav", "high.wav", "--figure", "heard.png")
    assert (status, out.splitlines()[-1]) == (0, "figure: heard.png")
    assert (spoken / "heard.png").read_bytes().startswith(b"\x89PNG")
    status, _, err = cli("predict", runs / "shd", "low.wav", "--figure", "heard.txt")
    assert (status, err) == (1, "bitspike: --figure must end in .png, but is heard.txt\n")
    status, out, _ = cli("predict", runs / "own", *["low.wav"] * 7, "--figure", "many.png")
    assert (status, out.splitlines()[-1]) == (0, "figure: many.png (the first 6 of 7 recordings)")


def test_a_recording_that_is_too_long_for_the_network_is_told(runs, workplace, cli):
    write_word(workplace / "long.wav", seconds=0.9)
    status, _, err = cli("predict", runs / "own", "long.wav")
    assert status == 0
    assert err.startswith("note: long.wav: ")
    assert err.endswith("% of the spikes come after the network's 300 ms\n")


def test_notes_of_recordings(runs, workplace, cli):
    write_word(workplace / "a.wav", seconds=0.1, channels=2)
    assert "note: a.wav: 2 channels were mixed to one\n" in cli("predict", runs / "own", "a.wav")[2]


def test_a_run_on_images_is_refused(done, spoken, cli):
    run, _ = done
    status, out, err = cli("predict", run, "low.wav")
    assert (status, out) == (1, "")
    assert "was trained on train.npz, whose samples have the shape [1, 4, 4]" in err
    assert err.endswith("predict takes a run on shd, or on files of bitspike encode\n")
    assert err.count("\n") == 1


def test_what_is_no_run_or_no_recording(runs, spoken, cli):
    assert "holds no run" in cli("predict", spoken, "low.wav")[2]
    (spoken / "bad.wav").write_bytes(b"what")
    assert cli("predict", runs / "own", "bad.wav")[2].startswith("bitspike: bad.wav: must be a WAV file")
    (spoken / "bad.npz").write_bytes(b"what")
    assert "bad.npz: must be an npz or HDF5 file" in cli("predict", runs / "own", "bad.npz")[2]
