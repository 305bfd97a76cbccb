"""`bitspike data info FILE.toml`: every split, the mistakes in it, and a picture."""

import json

import numpy as np
import pytest

from bitspike.cli.data_table import _short
from helpers.own_images import write_experiment

NET = '[net]\nnotation = "6Dense8Dense2"\nbeta = 0.9\nslope = 1.0\ntheta = 1.0\n[train]\nlr = 1e-3\nepochs = 1\n'


def recordings(path, seed=0, samples=40, scale=1, groups=None, labels=None):
    """Events of six channels in 20 ms, 60 a sample."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, 20_000, (samples, 60)), axis=1) * scale
    labels = np.arange(samples) % 2 if labels is None else labels
    more = {} if groups is None else {"groups": groups}
    x = rng.integers(0, 6, samples * 60)
    np.savez(path, t=t.ravel(), x=x, offsets=np.arange(samples + 1) * 60, labels=labels, **more)


@pytest.fixture
def own(workplace):
    recordings(workplace / "mine.npz", labels=np.array(["left", "right"])[np.arange(40) % 2])
    (workplace / "mine.toml").write_text(
        '[data]\nfile = "mine.npz"\ntime_unit = "us"\nbin_ms = 1\nsteps = 20\nsensor = [6]\n'
    )
    return workplace


def test_every_split_is_told(own, cli):
    status, out, err = cli("data", "info", "mine.toml", "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert (told["title"], told["classes"], told["shape"], told["warnings"]) == ("mine.npz", 2, [6], [])
    assert [told[split]["samples"] for split in ("train", "valid", "test")] == [28, 4, 8]  # as training holds out
    assert told["train"]["by_class"] == {"left": 14, "right": 14}
    assert (told["train"]["majority_class"], told["train"]["majority_share"]) == ("left", 0.5)
    events = told["test"]["events"]
    assert events["a_sample"] == {"median": 60, "low": 60, "high": 60}
    assert (len(events["a_step"]), sum(events["a_step"])) == (20, pytest.approx(60))
    assert events["lost"] == {"before": 0, "after": 0, "outside": 0, "clipped": 0}
    assert 17 < events["duration_ms"]["low"] <= events["duration_ms"]["high"] < 20
    assert events["bin_ms"] == 1


def test_in_words(own, cli):
    status, out, _ = cli("data", "info", "mine.toml")
    assert status == 0
    lines = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert lines["time steps"] == ["time", "steps", "20", "of", "1", "ms"]
    assert lines["left"] == ["left", "14", "2", "4"]
    assert lines["events a sample"][3:] == ["60", "(60..60)"] * 3
    assert lines["lost after bins"][3:] == ["0.00%"] * 3
    assert lines["empty samples"][2:] == ["0"] * 3
    assert "warning" not in out


@pytest.mark.parametrize(
    ("value", "expected"),
    [(99.97, "100"), (9.96, "10"), (9.94, "9.9"), (0.0123, "0.012"), (3.0, "3"), (12345, "12,345")],
)
def test_numbers_are_short(value, expected):
    assert _short(value) == expected


def test_settings_are_of_the_data_table(own, cli):
    recordings(own / "other.npz", seed=1, samples=10)
    told = json.loads(
        cli("data", "info", "mine.toml", "--set", "data.steps=15", "--set", "file=other.npz", "--json")[1]
    )
    assert (told["title"], told["train"]["steps"]) == ("other.npz", 15)
    status, _, err = cli("data", "info", "mine.toml", "--set", "bin_mss=2")
    assert status == 1
    assert err == "bitspike: mine.toml with --set: [data]: no field is named 'bin_mss'; did you mean 'bin_ms'?\n"


def test_a_file_of_data_needs_an_experiment_file(own, cli):
    status, _, err = cli("data", "info", "mine.npz")
    assert status == 1
    assert err == (
        "bitspike: data info: mine.npz is not a TOML file; write mine.toml beside it with the lines [data], "
        "file = 'mine.npz' and, for events in t, time_unit = 'us' (or 'ms', 's'), and give that\n"
    )


def test_a_time_is_no_class(workplace, cli):
    status, _, err = cli("data", "info", "coding", "--baselines")
    assert status == 1
    assert err == "bitspike: --baselines: they classify, but a label of coding is a time; leave it out\n"


def test_mistakes_are_told(own, cli):
    status, out, _ = cli("data", "info", "mine.toml", "--set", "time_unit=s")
    assert status == 0
    assert "% of the training events come after the last bin (the median sample lasts" in out
    found = json.loads(cli("data", "info", "mine.toml", "--set", "bin_ms=100", "--json")[1])["warnings"]
    assert [each["cause"] for each in found] == ["time too short"]
    assert set(found[0]) == {"cause", "where", "evidence", "remedy"}


def test_where_no_samples_can_be_held_out_the_rest_is_told(own, cli):
    recordings(own / "mine.npz", samples=6, groups=np.array([0, 0, 0, 0, 1, 1]))
    status, out, _ = cli("data", "info", "mine.toml")
    assert status == 0
    assert "warning: train.protocol = 'holdout' needs two groups to hold one out" in out
    assert "train        groups [0]" in out
    (told,) = json.loads(cli("data", "info", "mine.toml", "--json")[1])["warnings"]
    assert (told["cause"], told["where"]) == ("no validation samples", "valid")
    assert told["remedy"] == "use train.protocol = 'paper'"
    (own / "mine.toml").write_text((own / "mine.toml").read_text() + '[train]\nprotocol = "paper"\n')
    told = json.loads(cli("data", "info", "mine.toml", "--json")[1])
    assert "valid" not in told
    assert told["warnings"] == []


def test_a_picture_is_drawn(own, cli):
    status, _, err = cli("data", "info", "mine.toml", "--out", "mine.png")
    assert (status, err) == (0, "the figure is in mine.png\n")
    assert (own / "mine.png").read_bytes().startswith(b"\x89PNG")
    status, _, err = cli("data", "info", "mine.toml", "--out", "mine.jpg")
    assert status == 1
    assert err == "bitspike: --out mine.jpg: the picture is a PNG file; give it a name that ends in .png\n"


def test_baselines_are_beside_it(own, cli):
    told = json.loads(cli("data", "info", "mine.toml", "--baselines", "--json")[1])
    assert told["baselines"]["majority"] == 0.5
    assert 0 <= told["baselines"]["logistic"] <= 1
    assert "baselines    " in cli("data", "info", "mine.toml", "--baselines")[1]
    assert "baselines" not in json.loads(cli("data", "info", "mine.toml", "--json")[1])


def test_images_are_told(workplace, cli):
    toml = write_experiment(workplace)
    status, out, _ = cli("data", "info", str(toml), "--out", "images.png")
    assert status == 0
    assert "pixels" in out
    told = json.loads(cli("data", "info", str(toml), "--json")[1])
    assert told["train"]["pixels"]["dtype"] in ("uint8", "float32")
    assert (workplace / "images.png").is_file()


def test_training_says_once_what_looks_like_a_mistake(own, cli):
    recordings(own / "late.npz", seed=1, scale=1000)
    (own / "mine.toml").write_text(
        '[data]\nfile = "mine.npz"\ntest_file = "late.npz"\ntime_unit = "us"\nbin_ms = 1\nsteps = 20\nsensor = [6]\n'
        + NET
    )
    recordings(own / "mine.npz")
    status, _, err = cli("train", "mine.toml", "--out", "run", "--trials", "2")
    assert status == 0
    assert err.count("of the test events are in no bin, but only 0.0% of the training events") == 1


def test_tables_fit_80_columns(own, cli, monkeypatch):
    names = np.array(["a person walks to the left with a bag", "a person walks to the left with a box"])
    for at, file in enumerate(("mine", "test", "valid")):
        rng = np.random.default_rng(at)
        t = np.sort(rng.integers(0, 1_200_000, (20, 1300)), axis=1).ravel()
        offsets = np.arange(21) * 1300
        np.savez(own / f"{file}.npz", t=t, x=t % 6, offsets=offsets, labels=names[np.arange(20) % 2])
    files = ("--set", "test_file=test.npz", "--set", "validation_file=valid.npz", "--set", "bin_ms=60")

    def shown(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = cli("data", "info", "mine.toml", *files)[1].splitlines()
        assert not [line for line in lines if len(line) > columns and "warning" not in line and "edition" not in line]
        return lines

    narrow = shown(80)
    for row in (*names, "largest class", "events a sample", "lost at the border"):
        (line,) = (line for line in narrow if line.startswith(f"{row}  "))
        assert len(line.removeprefix(row).split()) == 3
    at = next(at for at, line in enumerate(narrow) if line.startswith("events a sample"))
    assert narrow[at].split()[3:] == ["1,300"] * 3
    assert narrow[at + 1].split() == ["5..95", "%", *["1,300..1,300"] * 3]
    (line,) = (line for line in shown(100) if line.startswith("events a sample"))
    assert line.split()[3:] == ["1,300", "(1,300..1,300)"] * 3


def test_weights_that_are_set_are_not_advised(own, cli):
    recordings(own / "mine.npz", labels=np.array([0] * 30 + [1] * 10))
    assert 'train.class_weights = "balanced" helps' in cli("data", "info", "mine.toml")[1]
    with (own / "mine.toml").open("a") as toml:
        toml.write('[train]\nclass_weights = "balanced"\n')
    status, out, _ = cli("data", "info", "mine.toml")
    assert status == 0
    assert "compare an accuracy with 75.9%, not with 50.0%\n" in out


def test_training_does_not_advise_weights_that_are_set(own, cli):
    recordings(own / "mine.npz", labels=np.array([0] * 30 + [1] * 10))
    with (own / "mine.toml").open("a") as toml:
        toml.write(NET)
    assert 'class_weights = "balanced" helps' in cli("train", "mine.toml", "--out", "a")[2]
    err = cli("train", "mine.toml", "--out", "b", "--set", "train.class_weights=balanced")[2]
    assert "not with 50.0%\n" in err


def test_persons_in_two_files_and_a_file_of_one_class_are_told(own, cli):
    recordings(own / "mine.npz", groups=np.arange(40) % 4)
    recordings(own / "test.npz", seed=1, groups=np.arange(40) % 2 + 3, labels=np.zeros(40, int))
    found = json.loads(cli("data", "info", "mine.toml", "--set", "test_file=test.npz", "--json")[1])["warnings"]
    assert [(each["cause"], each["where"]) for each in found] == [("one class", "test"), ("shared groups", "test")]
    assert found[1]["evidence"].startswith("groups 3 are among the ")


def test_samples_that_begin_late_are_told(own, cli):
    assert "begins at step" not in cli("data", "info", "mine.toml")[1]
    t = np.load(own / "mine.npz")["t"] + 20_000
    np.savez(own / "mine.npz", **{**np.load(own / "mine.npz"), "t": t})
    toml = own / "mine.toml"
    toml.write_text('[data]\nfile = "mine.npz"\ntime_unit = "us"\ntime_origin = "zero"\n')  # bins are found
    _, out, _ = cli("data", "info", "mine.toml")
    assert "begins at step" in out
    told = json.loads(cli("data", "info", "mine.toml", "--json")[1])
    assert told["train"]["events"]["first_step"]["low"] >= told["train"]["steps"] // 2
    assert [each["cause"] for each in told["warnings"]] == ["late beginning"]
    assert 'set data.time_origin = "first"' in told["warnings"][0]["remedy"]
    assert json.loads(cli("data", "info", "mine.toml", "--set", "time_origin=first", "--json")[1])["warnings"] == []


def test_channels_are_named(own, cli):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, 2400)
    x = np.where((x == 1) | (x == 4), 3, x)
    np.savez(own / "mine.npz", **{**np.load(own / "mine.npz"), "x": x})
    lines = cli("data", "info", "mine.toml", "--set", "bin_ms=2")[1].splitlines()
    (busiest,) = (line for line in lines if line.startswith("busiest      "))
    assert busiest.startswith("busiest      channels 3 (")
    assert busiest.endswith(" of the training events")
    assert "silent       channels 1, 4, of 6: no event in any training sample" in lines


def test_all_files_are_named(own, cli):
    recordings(own / "test.npz", seed=1, labels=np.array(["left", "right"])[np.arange(40) % 2])
    recordings(own / "dev.npz", seed=2, labels=np.array(["left", "right"])[np.arange(40) % 2])
    settings = ("--set", "test_file=test.npz", "--set", "validation_file=dev.npz")
    lines = cli("data", "info", "mine.toml", *settings)[1].splitlines()
    assert lines[:3] == ["title        mine.npz", "test file    test.npz", "valid file   dev.npz"]
    told = json.loads(cli("data", "info", "mine.toml", *settings, "--json")[1])
    assert (told["title"], told["test_file"], told["validation_file"]) == ("mine.npz", "test.npz", "dev.npz")


def test_many_balanced_classes_share_a_row(own, cli):
    names = np.array([f"letter {sign}" for sign in "abcdefghijkl"])
    recordings(own / "mine.npz", samples=120, labels=names[np.arange(120) % 12])
    lines = cli("data", "info", "mine.toml")[1].splitlines()
    assert [line.split() for line in lines if line.startswith("each of 12 ")] == [["each", "of", "12", "7", "1", "2"]]
    (classes,) = (line for line in lines if line.startswith("classes"))
    assert classes.startswith("classes      12: letter a, letter b, ")
    recordings(own / "mine.npz", samples=120, labels=names[np.minimum(np.arange(120) % 13, 11)])  # one has twice
    assert "letter a " in cli("data", "info", "mine.toml")[1]


def test_images_say_for_how_long_they_are_shown(workplace, cli):
    toml = write_experiment(workplace)
    assert "time steps   6, for which an image is shown (net.steps)" in cli("data", "info", str(toml))[1]


NOTE = (
    "note: the epoch is chosen by one of 5 groups alone (5); data.validation_groups, or a larger data.validation_share"
)


def test_one_group_that_chooses_the_epoch_is_told(own, cli):
    recordings(own / "mine.npz", groups=np.arange(40) // 2 % 6)
    (own / "mine.toml").write_text((own / "mine.toml").read_text() + "validation_groups = [5]\n" + NET)
    status, out, _ = cli("data", "info", "mine.toml")
    assert status == 0
    assert NOTE in out
    (note,) = json.loads(cli("data", "info", "mine.toml", "--json")[1])["notes"]
    assert f"note: {note}".startswith(NOTE)
    assert NOTE in cli("train", "mine.toml", "--out", "run")[2]
    assert "note" not in cli("data", "info", "mine.toml", "--set", "validation_groups=[3,5]")[1]


def test_a_test_file_without_groups_is_told(own, cli):
    recordings(own / "mine.npz", groups=np.arange(40) // 2 % 6)
    recordings(own / "test.npz", seed=1)
    out = cli("data", "info", "mine.toml", "--set", "test_file=test.npz", "--set", "validation_groups=[3,5]")[1]
    assert out.endswith(
        "note: the test samples have no groups: it cannot be checked whether a group is in two splits; give every "
        "file an array groups\n"
    )


def test_names_of_rows_are_not_broken(own, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = cli("data", "info", "mine.toml")[1].splitlines()
    for name in ("events a sample", "steps with events", "lost at the border"):
        assert [line for line in lines if line.startswith(name)]


@pytest.mark.parametrize("columns", ["1", "13", "14"])
def test_a_terminal_may_be_very_narrow(own, cli, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    status, out, err = cli("data", "info", "mine.toml")
    assert (status, err) == (0, "")
    assert "time steps   20 of 1 ms" in out.splitlines()
