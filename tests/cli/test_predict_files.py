"""`bitspike predict` on images, events and spikes: a run, its packed file and a pretrained name answer alike."""

import json

import numpy as np
import pytest
from PIL import Image

import bitspike
from helpers.files import event_arrays, write_idx, write_npz
from helpers.own_files import images
from helpers.shipped import event_run, image_run, spike_run
from helpers.spoken import write_shd
from helpers.wav import write_word


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A folder with a run for each kind of input, and a packed file of each beside it."""
    from typer.testing import CliRunner

    from bitspike.cli import app

    folder = tmp_path_factory.mktemp("shipped")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BITSPIKE_DATA", str(folder / "root"))
        runs = [image_run(folder), event_run(folder), spike_run(folder)]
        toml = write_shd(folder, folder / "root")
        CliRunner().invoke(app, ["train", str(toml), "--out", str(folder / "on-speech")])
    for run in (*runs, folder / "on-speech"):
        made = CliRunner().invoke(app, ["export", str(run), "--to", "packed", "--out", f"{run}.safetensors"])
        assert made.exit_code == 0, made.output
    return folder


def told(cli, *arguments):
    status, out, err = cli("predict", *arguments, "--json")
    assert status == 0, err
    return json.loads(out)


@pytest.mark.parametrize(
    ("name", "file"), [("on-images", "images.npz"), ("on-events", "test.npz"), ("on-spikes", "spikes.npz")]
)
def test_a_run_and_its_packed_file_answer_alike(shipped, cli, name, file):
    """Answers, confidence and the spikes of every layer."""
    run, packed = (told(cli, shipped / model, shipped / file) for model in (name, f"{name}.safetensors"))
    assert run["samples"] == packed["samples"]
    assert run["accuracy"] == packed["accuracy"]
    assert any(sum(each["spikes"].values()) for each in run["samples"])


def test_recordings_are_heard_alike(shipped, workplace, cli):
    write_word(workplace / "low.wav", seconds=0.1)
    cli("encode", "low.wav", "--label", "3", "--out", "labelled.npz")
    run, packed = (
        told(cli, shipped / model, "low.wav", "labelled.npz") for model in ("on-speech", "on-speech.safetensors")
    )
    assert run["samples"] == run["recordings"] == packed["recordings"]
    assert [each["expected"] for each in run["samples"]] == [None, 3]
    other = told(cli, shipped / "on-speech", "low.wav", "labelled.npz", "--seed", "3", "--no-trim")
    assert other["samples"][1] == run["samples"][1]  # they are for the recording
    assert run["labelled"] == 1
    with np.load("labelled.npz") as arrays:
        write_npz(workplace / "plain.npz", **{**arrays, "labels": [0]})  # as `bitspike encode` writes if it is not told
    assert told(cli, shipped / "on-speech", "plain.npz")["accuracy"] is None
    assert cli("predict", shipped / "on-speech.safetensors", "plain.npz", "--figure", "heard.png")[0] == 0
    assert (workplace / "heard.png").read_bytes().startswith(b"\x89PNG")


def test_a_pretrained_name_is_its_packed_file(workplace, cli):
    from bitspike.deploy.pretrained import pretrained_path

    drawn = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    write_npz(workplace / "some.npz", images=drawn)  # without labels
    by_name, by_file = (told(cli, model, "some.npz") for model in ("mnist/best", pretrained_path("mnist/best")))
    assert by_name["samples"] == by_file["samples"]
    assert by_name["accuracy"] is None
    engine = bitspike.deploy.pretrained.pretrained("mnist/best")
    answers = engine(drawn[:, None]).scores.argmax(1).tolist()
    assert [each["label"] for each in by_name["samples"]] == answers
    assert [each["answer"] for each in by_name["samples"]] == list(map(str, answers))


def test_a_line_for_each_sample_and_the_accuracy(shipped, workplace, cli):
    status, out, err = cli("predict", shipped / "on-images", shipped / "images.npz")
    assert (status, err) == (0, "")
    *lines, last = out.splitlines()
    assert len(lines) == 30
    assert lines[4].startswith(f"{shipped / 'images.npz'}[4] ")
    right = sum("wrong:" not in line for line in lines)
    assert last == f"accuracy {right / 30:.2%} of 30 samples with a label"
    assert all(name in out for name in ("no", "maybe", "yes"))  # the classes' names, not their labels


def test_labels_that_are_no_class_are_told(shipped, workplace, cli):
    write_npz(workplace / "strange.npz", **images([3, 5, 6], side=8))
    status, out, err = cli("predict", shipped / "on-images.safetensors", "strange.npz")
    assert status == 0
    assert "1 of 3 labels are no class of the network (the first is 6), and are not in the accuracy" in err
    assert out.splitlines()[-1].endswith("of 2 samples with a label")


def test_pictures_are_the_images_that_they_show(shipped, workplace, cli):
    values = images(3, side=8)["images"]
    write_npz(workplace / "three.npz", images=values)
    write_idx(workplace / "three-idx3-ubyte.gz", values)
    for i, each in enumerate(values):
        Image.fromarray(each).save(workplace / f"{i}.png")
        Image.fromarray(255 - each).save(workplace / f"dark-{i}.png")
    model = shipped / "on-images.safetensors"
    arrays = [each["confidence"] for each in told(cli, model, "three.npz")["samples"]]
    pictures = told(cli, model, "0.png", "1.png", "2.png")["samples"]
    assert [each["confidence"] for each in pictures] == arrays
    assert [each["file"] for each in pictures] == ["0.png", "1.png", "2.png"]
    inverted = told(cli, model, "dark-0.png", "dark-1.png", "dark-2.png", "--invert")["samples"]
    assert [each["confidence"] for each in inverted] == arrays
    assert [each["confidence"] for each in told(cli, model, "three-idx3-ubyte.gz")["samples"]] == arrays
    mixed = told(cli, model, "0.png", "three.npz")["samples"]
    assert [each["confidence"] for each in mixed] == [arrays[0], *arrays]


def test_what_is_done_to_pictures_is_told(workplace, cli):
    white = Image.new("RGB", (60, 30), (250, 255, 250))
    white.save(workplace / "wide.png")
    status, _, err = cli("predict", "mnist/best", "wide.png")
    assert status == 0
    assert err.splitlines() == [
        "note: wide.png: colours became grey (0.299 red + 0.587 green + 0.114 blue)",
        "note: wide.png: 60 x 30 pixels were scaled to 28 x 28",
        "note: wide.png: its border is bright, but the network learnt bright things on black; try --invert",
    ]


def test_late_events_are_told(shipped, workplace, cli):
    arrays = event_arrays(2, side=8)
    write_npz(workplace / "late.npz", **{**arrays, "t_us": arrays["t_us"] * 10})
    assert "of the events come after the network's 9 ms" in cli("predict", shipped / "on-events", "late.npz")[2]


def test_many_late_samples_are_counted(shipped, workplace, cli):
    """Times in milliseconds, read as seconds: all events of all samples come too late, but for the first ones."""
    arrays = event_arrays(12, side=8, unit="t")
    write_npz(workplace / "ms.npz", **arrays)
    lines = cli("predict", shipped / "on-events", "ms.npz", "--time-unit", "s")[2].splitlines()
    late = [line for line in lines if "come after" in line]
    assert [line.split(":")[1] for line in late] == [
        " ms.npz[0]",
        " ms.npz[1]",
        " ms.npz[2]",
        " 8 more samples",
    ]  # one is empty
    assert [line for line in lines if "--time-unit" in line] == late[-1:]
    few = {**arrays, "t": arrays["t"] * np.where(np.arange(len(arrays["t"])) < arrays["offsets"][1], 1000, 0.5)}
    write_npz(workplace / "few.npz", **few)
    err = cli("predict", shipped / "on-events", "few.npz")[2]
    assert "few.npz[0]: " in err
    assert "--time-unit" not in err


REFUSED = {
    "an unknown model": (["mnist/bests", "a.npz"], "mnist/bests does not exist: give a run's folder, a packed file, or "
                         "a pretrained network; did you mean 'mnist/best'?"),
    "a file that is gone": (["on-images", "gone.npz"], "gone.npz does not exist"),
    "a folder": (["on-images", "."], ". is not a file"),
    "no picture": (["on-images", "bad.png"], "bad.png: is not a picture: it begins with b'what'"),
    "an empty picture": (["on-images", "empty.png"], "empty.png: is empty"),
    "a damaged picture": (["on-images", "cut.png"], "cut.png: the picture is damaged or cut short"),
    "an unknown kind": (["on-images", "a.txt"], "give a picture (png, jpg, jpeg, ...), an npz or HDF5 file"),
    "events for images": (["on-images", "events.npz"], "but the network takes images of 8 x 8; write an array images"),
    "images for events": (["on-events", "images.npz"], "holds images, labels, but the network takes events"),
    "a picture for events": (["on-events", "good.png"], "which are events, and takes no pictures"),
    "a table for events": (["on-events", "a.csv"], "events.npz, which are events; give an npz or HDF5 file of events"),
    "an array for events": (["on-events", "a.npy"], "events.npz, which are events; give an npz or HDF5 file of events"),
    "no suffix": (["on-events", "bare"], "events.npz, which are events; give an npz or HDF5 file of events"),
    "a table for speech": (["on-speech", "a.csv"], "; give a recording (WAV), or an npz or HDF5 file of events"),
    "a picture for speech": (["shd/best", "good.png"], "no pictures; give a recording (WAV), or an npz or HDF5 file"),
    "a large sensor": (["on-events", "large.npz"], "large.npz: the largest y is 11, but the network was trained on "
                       "events.npz, a sensor of 8 x 9 pixels, so that y is at most 8"),
    "no y": (["on-events", "line.npz"], "its events have x and no y, but the network was trained on events.npz"),
    "no polarity": (["on-events", "grey.npz"], "as its sensor has them; p is missing"),
    "a unit for t_us": (["on-events", "events.npz", "--time-unit", "ms"], "its t_us is in microseconds, but "
                        "--time-unit is 'ms'; leave it out"),
    "too small a unit": (["on-events", "seconds.npz", "--time-unit", "us"], "--time-unit is too small a unit; try 's'"),
    "other channels": (["on-images", "c2.npz"], "c2.npz: images have 2 channels, but the network takes 1; give images"),
    "swapped arguments": (["events.npz", "on-events"], "events.npz is not a packed network, or is damaged: the first "
                          "argument is the model, a run's folder, a packed file or a pretrained network; the files"),
    "no sample": (["on-events", "none.npz"], "none.npz: holds no sample"),
    "values of another shape": (["on-spikes", "other.npz"], "samples have the shape [9], but the network was"),
    "a picture for values": (["on-spikes", "good.png"], "nothing says how such a file becomes a sample"),
    "invert for events": (["on-events", "large.npz", "--invert"], "--invert is for images"),
    "a unit for images": (["on-images", "good.png", "--time-unit", "s"], "--time-unit is for events, but the network"),
    "a unit for a recording": (["on-speech", "a.wav", "--time-unit", "s"], "but all files are recordings; leave it"),
    "a seed for images": (["on-images", "good.png", "--seed", "3"], "--seed is for recordings (WAV), but none of"),
    "no trim for events": (["on-events", "events.npz", "--no-trim"], "--no-trim is for recordings (WAV), but none"),
    "a unit": (["on-events", "large.npz", "--time-unit", "h"], "--time-unit must be s, ms or us, but is 'h'"),
    "a figure of images": (["on-images", "good.png", "--figure", "a.png"], "--figure shows recordings, but"),
    "a device for a packed file": (["on-images.safetensors", "good.png", "--device", "cuda"], "runs on the CPU"),
    "no packed file": (["bad.png", "good.png"], "bad.png is not a packed network, or is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_in_one_line(shipped, workplace, cli, case):
    arguments, says = REFUSED[case]
    good = images(1, side=8)["images"][0]
    Image.fromarray(good).save(workplace / "good.png")
    (workplace / "bad.png").write_bytes(b"what")
    (workplace / "empty.png").write_bytes(b"")
    (workplace / "cut.png").write_bytes((workplace / "good.png").read_bytes()[:60])
    for name in ("a.txt", "a.csv", "a.npy", "bare"):
        (workplace / name).write_text("7")
    events = event_arrays(3, side=8)
    write_npz(workplace / "events.npz", **events)
    write_npz(workplace / "images.npz", **images(2, side=8))
    write_npz(workplace / "large.npz", **{**events, "y": events["y"] + np.uint8(4)})
    write_npz(workplace / "line.npz", **{name: each for name, each in events.items() if name != "y"})
    write_npz(workplace / "grey.npz", **{name: each for name, each in events.items() if name != "p"})
    none = {name: each[:0] for name, each in events.items() if name not in ("labels", "offsets")}
    write_npz(workplace / "none.npz", **none, offsets=np.zeros(1, int))
    write_npz(workplace / "other.npz", spikes=np.zeros((2, 3, 9), int))
    many = {"x": np.zeros(300, np.uint8), "y": np.zeros(300, np.uint8), "p": np.zeros(300, np.uint8)}
    write_npz(workplace / "seconds.npz", **many, t=np.linspace(0, 1, 300), offsets=np.array([0, 300]))
    write_npz(workplace / "c2.npz", images=np.zeros((2, 2, 8, 8), np.uint8))
    model, *others = arguments
    status, out, err = cli("predict", shipped / model if (shipped / model).exists() else model, *others)
    assert (status, out) == (1, ""), err
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize("model", ["on-images", "on-images.safetensors"])
def test_a_file_that_cannot_be_read_keeps_no_other_from_an_answer(shipped, workplace, cli, model):
    Image.fromarray(images(1, side=8)["images"][0]).save(workplace / "good.png")
    (workplace / "bad.png").write_bytes(b"what")
    status, out, err = cli("predict", shipped / model, "bad.png", "good.png", "gone.png")
    assert status == 1
    assert out.startswith("good.png  ")
    assert out.count("\n") == 1
    assert err.splitlines()[-2:] == [
        "bitspike: bad.png: is not a picture: it begins with b'what'; give a picture that Pillow reads, such as PNG or "
        "JPEG",
        "bitspike: gone.png does not exist",
    ]
    status, out, _ = cli("predict", shipped / model, "bad.png", "good.png", "--json")
    assert status == 1
    assert [each["file"] for each in json.loads(out)["samples"]] == ["good.png"]
    status, out, err = cli("predict", shipped / model, "bad.png", "gone.png")
    assert (status, out, err.count("\n")) == (1, "", 1)


def test_the_unit_of_times_comes_from_training_or_by_hand(shipped, workplace, cli):
    """`test.npz` has milliseconds, as the run's experiment says; a packed file keeps that."""
    whole = told(cli, shipped / "on-events", shipped / "test.npz")["samples"]
    with np.load(shipped / "test.npz") as arrays:
        write_npz(workplace / "us.npz", **{**arrays, "t": arrays["t"] * 1000})
    again = told(cli, shipped / "on-events.safetensors", "us.npz", "--time-unit", "us")["samples"]
    assert [each["confidence"] for each in again] == [each["confidence"] for each in whole]
