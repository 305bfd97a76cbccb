"""`bitspike encode`: recordings in, a file of spikes out."""

import json

import numpy as np
import pytest

from bitspike.data.speech.spike_files import read_spikes
from helpers.wav import wav, write_word


def test_one_recording(workplace, cli):
    write_word(workplace / "a.wav", seconds=0.2)
    status, out, err = cli("encode", "a.wav", "--out", "a.npz")
    assert (status, err) == (0, "")
    spikes = read_spikes(workplace / "a.npz")
    assert out.splitlines()[0].startswith(f"a.wav: 0.20 s, {len(spikes.t):,} spikes in ")
    assert out.splitlines()[1] == "1 sample in a.npz"
    assert spikes.labels.tolist() == [0]


def test_the_same_command_gives_the_same_file(workplace, cli):
    write_word(workplace / "a.wav", seconds=0.1)
    for out, seed in (("a.npz", 3), ("b.npz", 3), ("c.npz", 4)):
        assert cli("encode", "a.wav", "--out", out, "--seed", seed)[0] == 0
    first, again, other = ((workplace / out).read_bytes() for out in ("a.npz", "b.npz", "c.npz"))
    assert first == again
    assert first != other


def test_several_recordings_with_labels_as_hdf5_and_json(workplace, cli):
    write_word(workplace / "a.wav", seconds=0.1)
    write_word(workplace / "b.wav", seconds=0.1, pitch=220, channels=2)
    more = ("--label", 3, "--label", 19, "--json")
    status, out, err = cli("encode", "a.wav", "b.wav", "--out", "both.h5", *more)
    assert (status, err) == (0, "")
    told = json.loads(out)
    spikes = read_spikes(workplace / "both.h5")
    assert spikes.labels.tolist() == [3, 19]
    assert [row["spikes"] for row in told["recordings"]] == np.diff(spikes.offsets).tolist()
    assert [row["channels"] for row in told["recordings"]] == [1, 2]
    assert (told["out"], told["seed"], told["trim"]) == ("both.h5", 0, True)


def test_a_stereo_recording_is_mixed_and_this_is_said(workplace, cli):
    write_word(workplace / "mono.wav", seconds=0.1)
    write_word(workplace / "stereo.wav", seconds=0.1, channels=2)
    assert cli("encode", "mono.wav", "--out", "a.npz")[2] == ""
    status, _, err = cli("encode", "stereo.wav", "--out", "b.npz")
    assert (status, err) == (0, "note: stereo.wav: 2 channels were mixed to one\n")
    assert (workplace / "a.npz").read_bytes() == (workplace / "b.npz").read_bytes()


def test_silence_is_cut_unless_it_shall_stay(workplace, cli):
    write_word(workplace / "a.wav", seconds=0.1)
    words = (workplace / "a.wav").read_bytes()[44:]
    (workplace / "long.wav").write_bytes(wav(bytes(16000) + words + bytes(16000)))
    cut, whole = (
        json.loads(cli("encode", "long.wav", "--out", "a.npz", "--json", *more)[1])
        for more in ((), ("--no-trim", "--force"))
    )
    assert cut["recordings"][0]["encoded_seconds"] < 0.32
    assert whole["recordings"][0]["encoded_seconds"] == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "a.wav: is empty"), (b"what?", "a.wav: must be a WAV file"), (wav(bytes(3200)), "a.wav: is silent")],
)
def test_a_bad_recording_is_one_line_and_nothing_is_written(workplace, cli, content, says):
    (workplace / "a.wav").write_bytes(content)
    status, out, err = cli("encode", "a.wav", "--out", "a.npz")
    assert (status, out) == (1, "")
    assert err.startswith(f"bitspike: {says}")
    assert err.count("\n") == 1
    assert not (workplace / "a.npz").exists()


@pytest.mark.parametrize("name", ["a.npz", "a.h5"])
def test_a_file_that_is_there_is_written_over_only_by_force(workplace, cli, name):
    """It may hold a day's recordings, and nothing is added to it."""
    write_word(workplace / "a.wav", seconds=0.1)
    (workplace / name).write_bytes(b"mine")
    status, out, err = cli("encode", "no.wav", "--out", name)  # before a recording is read
    says = f"bitspike: --out {name}: the file exists; take another name, or add --force to write over it\n"
    assert (status, out, err) == (1, "", says)
    assert (workplace / name).read_bytes() == b"mine"
    assert cli("encode", "a.wav", "--out", name, "--force")[0] == 0
    assert len(read_spikes(workplace / name)) == 1
    (workplace / "folder.npz").mkdir()
    assert "this is a folder" in cli("encode", "a.wav", "--out", "folder.npz", "--force")[2]


def test_what_the_command_refuses(workplace, cli):
    write_word(workplace / "a.wav", seconds=0.1)
    assert "--out must end in .npz" in cli("encode", "a.wav", "--out", "a.wav")[2]
    assert (
        "once for each of the 1 files, but 2 are"
        in cli("encode", "a.wav", "--out", "a.npz", "--label=1", "--label=2")[2]
    )
    assert f"0 to 2147483647, but one is {10**20}" in cli("encode", "a.wav", "--out", "a.npz", f"--label={10**20}")[2]
    assert "0 to 19, but one is 20; write a .npz" in cli("encode", "a.wav", "--out", "a.h5", "--label=20")[2]
    assert cli("encode", "not-there.wav", "--out", "a.npz")[2] == "bitspike: not-there.wav: No such file or directory\n"
    assert cli("encode", ".", "--out", "a.npz")[2] == "bitspike: .: Is a directory\n"
    assert cli("encode", "a.wav", "--out", "a.npz", "--seed=-1")[0] == 2
