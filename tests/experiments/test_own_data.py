"""One's own data through a TOML file: images, events and spikes, from npz and HDF5, trained, evaluated, refused."""

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import load
from bitspike.data.config import DataConfig
from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Frames, Images
from bitspike.data.splits import held_out, limited
from bitspike.experiments.held_out import splits
from bitspike.experiments.schema import read_experiment
from helpers.files import event_arrays, write_hdf5, write_npz

TOML = """
[data]
{data}

[net]
notation = "{notation}"
beta = 0.9
slope = 1.0
theta = {{ start = 2.0, stop = 4.0, rate = 0.1 }}

[train]
epochs = 2
batch = 8
lr = 1e-2
half_period = 100
tensorboard = false
"""


@pytest.fixture
def here(workplace):
    return workplace


@pytest.fixture
def bitspike(cli):
    """`bitspike ARGUMENTS`: the exit status, stdout, and the last line of stderr."""

    def call(*arguments):
        status, out, err = cli(*arguments)
        return status, out, (err.strip().splitlines() or [""])[-1]

    return call


def image_arrays(samples=30, classes=3, side=4, seed=0):
    """Bright rows that say the class, on noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(samples) % classes
    images = rng.integers(0, 60, (samples, side, side))
    images[np.arange(samples), labels] += 180
    return {"images": images.astype(np.uint8), "labels": labels}


def spike_arrays(samples=30, steps=6, units=5, seed=0):
    rng = np.random.default_rng(seed)
    return {"spikes": rng.random((samples, steps, units)) < 0.5, "labels": np.arange(samples) % 3}


def write_toml(path, data, notation):
    path.write_text(TOML.format(data=data, notation=notation))
    return path


def images_toml(folder, data='file = "images.npz"', notation="16-8-3"):
    write_npz(folder / "images.npz", **image_arrays())
    return write_toml(folder / "mine.toml", data, notation)


def figures(run):
    """What a run measured, but for how long it took."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "timing"} for row in rows]


# ---- Each kind trains

BINS = "bin_ms = 2.0\nsteps = 6"
KINDS = {
    "images": ("own.npz", image_arrays, "", "16-8-3", (1, 4, 4)),
    "float images": (
        "own.npz",
        lambda: {**image_arrays(), "images": image_arrays()["images"][:, None] / np.float32(255)},
        "",
        "2Conv3-8Dense3",
        (1, 4, 4),
    ),
    "images in HDF5": ("own.h5", image_arrays, "", "16-8-3", (1, 4, 4)),
    "events": ("own.npz", lambda: event_arrays(12), BINS, "72-8-3", (2, 6, 6)),
    "events in ms": ("own.npz", lambda: event_arrays(12, unit="t"), f'{BINS}\ntime_unit = "ms"', "72-8-3", (2, 6, 6)),
    "events in HDF5": ("own.h5", lambda: event_arrays(12), BINS, "72-8-3", (2, 6, 6)),
    "a larger sensor": ("own.npz", lambda: event_arrays(12), f"{BINS}\nsensor = [8, 10]", "160-8-3", (2, 8, 10)),
    "halved": ("own.npz", lambda: event_arrays(12), f"{BINS}\ndownsample = 2", "18-8-3", (2, 3, 3)),
    "one channel": ("own.npz", lambda: event_arrays(12), f"{BINS}\npolarity = false", "36-8-3", (1, 6, 6)),
    "spikes": ("own.npz", spike_arrays, "", "5-8-3", (5,)),
    "spikes in HDF5": ("own.h5", spike_arrays, "", "5-8-3", (5,)),
}


def write_kind(folder, kind, name=None):
    file, arrays, data, notation, shape = KINDS[kind]
    write = write_npz if file.endswith("npz") else write_hdf5
    write(folder / (name or file), **arrays())
    return write_toml(folder / "mine.toml", f'file = "{file}"\n{data}', notation), shape


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_trains_and_evaluates(kind, here, bitspike):
    toml, shape = write_kind(here, kind)
    status, out, _ = bitspike("train", toml, "--json")
    assert status == 0
    summary = json.loads(out)
    assert summary["experiment"] == "mine"
    assert summary["data"] == KINDS[kind][0]
    assert summary["epochs"] == 2
    data = open_dataset(read_experiment(toml).data)
    assert data.shape == shape
    assert data.classes == 3
    assert summary["samples"]["test"] == len(data.test)
    assert summary["samples"]["train"] + summary["samples"]["valid"] == len(data.train)
    status, out, _ = bitspike("evaluate", "runs/mine", "--json")
    assert status == 0
    assert json.loads(out)["accuracy"] == summary["accuracy"]


def test_images_can_be_learnt(here, bitspike):
    toml = images_toml(here, notation="16-64-3")
    _, out, _ = bitspike("train", toml, "--epochs", 20, "--json")
    assert json.loads(out)["accuracy"] >= 0.8


def test_a_kind_can_be_said_where_arrays_do_not_tell(here, bitspike):
    toml = write_toml(here / "mine.toml", 'file = "both.npz"', "5-8-3")
    write_npz(here / "both.npz", **spike_arrays(), images=image_arrays()["images"])
    status, _, line = bitspike("train", toml)
    assert status == 1
    assert "must hold the arrays of one kind" in line
    assert bitspike("train", toml, "--set", "data.kind=spikes", "--out", "second")[0] == 0


# ---- With and without a test file


def test_a_test_file_is_all_of_the_test_set(here, bitspike):
    write_npz(here / "more.npz", **image_arrays(12, seed=5))
    toml = images_toml(here, 'file = "images.npz"\ntest_file = "more.npz"')
    summary = json.loads(bitspike("train", toml, "--json")[1])
    assert summary["samples"] == {"train": 27, "valid": 3, "test": 12}


def test_without_one_a_share_of_every_class_is_held_out(here):
    data = open_dataset(read_experiment(images_toml(here)).data)
    assert (len(data.train), len(data.test)) == (24, 6)
    assert data.test.labels.bincount().tolist() == [2, 2, 2]


def test_test_steps_need_a_test_file(here, bitspike):
    toml, _ = write_kind(here, "events")
    status, _, line = bitspike("train", toml, "--set", "data.test_steps=9")
    assert status == 1
    assert "data.test_steps needs data.test_file" in line


def test_training_and_test_samples_may_have_other_lengths(here):
    toml, _ = write_kind(here, "events")
    toml.write_text(toml.read_text().replace("steps = 6", 'steps = 6\ntest_steps = 9\ntest_file = "own.npz"', 1))
    data = open_dataset(read_experiment(toml).data)
    assert (data.train.steps, data.test.steps) == (6, 9)


def test_files_of_other_shapes_do_not_go_together(here, bitspike):
    write_npz(here / "more.npz", **image_arrays(side=5))
    status, _, line = bitspike("train", images_toml(here, 'file = "images.npz"\ntest_file = "more.npz"'))
    assert status == 1
    assert "images.npz have the shape (1, 4, 4), but those of more.npz (1, 5, 5)" in line


def test_classes_are_counted_over_both_files(here):
    write_npz(here / "more.npz", **image_arrays(12, classes=4))
    data = open_dataset(read_experiment(images_toml(here, 'file = "images.npz"\ntest_file = "more.npz"')).data)
    assert data.classes == 4


# ---- Paths


def test_paths_are_relative_to_the_toml_file_not_to_the_user(here, bitspike, monkeypatch):
    (here / "deep" / "data").mkdir(parents=True)
    write_npz(here / "deep" / "data" / "images.npz", **image_arrays())
    write_toml(here / "deep" / "mine.toml", 'file = "data/images.npz"', "16-8-3")
    assert bitspike("train", "deep/mine.toml", "--epochs", 1)[0] == 0
    assert (here / "runs" / "mine" / "summary.json").is_file()


def test_a_runs_experiment_can_be_trained_again_from_elsewhere(here, bitspike, monkeypatch, tmp_path):
    assert bitspike("train", images_toml(here))[0] == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(here / "runs" / "mine" / "experiment.toml", elsewhere / "again.toml")
    monkeypatch.chdir(elsewhere)
    assert bitspike("train", "again.toml", "--out", "again")[0] == 0
    assert figures(elsewhere / "again") == figures(here / "runs" / "mine")


def test_a_run_folder_can_be_moved(here, bitspike, tmp_path):
    assert bitspike("train", images_toml(here))[0] == 0
    (here / "runs" / "mine").rename(tmp_path / "moved")
    assert bitspike("evaluate", tmp_path / "moved")[0] == 0


def test_a_file_that_is_set_is_relative_to_the_user_and_found_again(here, bitspike):
    images_toml(here)
    toml = write_toml(here / "mine.toml", 'file = "nowhere.npz"', "16-8-3")
    assert bitspike("train", toml, "--set", "data.file=images.npz", "--epochs", 1)[0] == 0
    assert bitspike("evaluate", "runs/mine")[0] == 0


# ---- What is refused, in one line


def refuse(bitspike, *arguments):
    status, out, line = bitspike("train", *arguments)
    assert status == 1
    assert out == ""
    assert line.startswith("bitspike: ")
    return line


@pytest.mark.parametrize(
    ("notation", "says"),
    [
        ("15-8-3", "token '15Dense8Dense3' of '15-8-3': 15 inputs, but 16 arrive (1x4x4); write 16Dense8Dense3"),
        (
            "2Conv5-8Dense3",
            "token '2Conv5' of '2Conv5-8Dense3': a kernel of 5 does not fit its input of 4x4; at most 4",
        ),
        ("2Conv3-AP3-2Dense3", "token 'AP3' of '2Conv3-AP3-2Dense3': a pool of 3 does not fit its input of 2x2"),
        ("2Conv3-9Dense3", "token '9Dense3' of '2Conv3-9Dense3': 9 inputs, but 8 arrive (2x2x2); write 8Dense3"),
        ("16Dens3", "token '16Dens3' of '16Dens3': not understood"),
        ("16-8-2", "net.notation '16-8-2' has 2 outputs, but images.npz has 3 classes; end it in Dense3"),
        (
            "3Conv4",
            "net.notation '3Conv4' does not end in a Dense layer, but images.npz has 3 classes; end it in Dense3",
        ),
    ],
)
def test_a_notation_that_does_not_fit_names_token_and_size(notation, says, here, bitspike):
    assert says in refuse(bitspike, images_toml(here, notation=notation))


def test_more_outputs_than_classes_are_fine(here, bitspike):
    assert bitspike("train", images_toml(here, notation="16-8-5"), "--epochs", 1)[0] == 0


def test_a_run_that_could_not_begin_leaves_nothing_in_the_way(here, bitspike):
    refuse(bitspike, images_toml(here, notation="15-8-3"))
    assert bitspike("train", images_toml(here), "--epochs", 1)[0] == 0


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("events in ms", ["data.time_unit=none"], "time_unit must say what t is in"),
        ("events in ms", ["data.time_unit=h"], "data.time_unit: must be 's', 'ms' or 'us', but is 'h'"),
        ("events", ["data.time_unit=ms"], "t_us is in microseconds, but time_unit is 'ms'; leave it out"),
        ("events", ["data.sensor=[4, 6]"], "sensor must be [height, width], at least [6, 6] for these events"),
        (
            "events",
            ["data.sensor=[6]"],
            "sensor must be [height, width], at least [6, 6], but is [6]: these events have x and y",
        ),
        ("images", ["data.bin_ms=2"], "data.bin_ms has no meaning here: own.npz holds images"),
        ("images", ["data.time_unit=ms"], "data.time_unit has no meaning here: own.npz holds images"),
        ("images", ["data.sensor=[4, 4]"], "data.sensor has no meaning here: own.npz holds images"),
        ("spikes", ["data.time_unit=us"], "data.time_unit has no meaning here: own.npz holds spikes that are binned"),
        ("images", ["data.steps=9"], "net.steps is how long one is shown"),
        ("spikes", ["data.clip=1"], "data.clip has no meaning here: own.npz holds spikes that are binned already"),
        (
            "images",
            ["data.kind=spikes"],
            "data.kind = 'spikes' needs spikes [N, T, ...] and labels [N], but spikes is missing",
        ),
        ("images", ["data.validation_share=0"], "data.validation_share is 0, but train.protocol = 'holdout'"),
        ("images", ["train.loss=trace"], "train.loss must be 'count' or 'cross_entropy' on own.npz, but is 'trace'"),
        ("images", ["net.theta=[1, 2, 3]"], "net.theta must be one threshold, or one a neuron layer, 2 in '16-8-3'"),
        ("images", ["net.beta=[0.1]"], "beta"),
        ("images", ["data.train_limit=1"], "needs two training samples of a class"),
    ],
)
def test_settings_that_do_not_fit_the_data(kind, settings, says, here, bitspike):
    toml, _ = write_kind(here, kind)
    line = refuse(bitspike, toml, *(word for setting in settings for word in ("--set", setting)))
    assert says in line


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"images": np.zeros((4, 4)), "labels": np.zeros(4, int)}, "images must be [N, H, W] or [N, C, H, W]"),
        ({"images": np.full((4, 2, 2), 7.0), "labels": np.zeros(4, int)}, "must be in [0, 1], but range over 7..7"),
        ({"images": np.zeros((4, 2, 2)), "labels": np.zeros(3, int)}, "images must be as many as labels, 3"),
        ({"images": np.zeros((4, 2, 2)), "labels": np.full(4, 0.5)}, "labels must be whole numbers"),
        ({"images": np.zeros((4, 2, 2)), "labels": np.full(4, -1)}, "labels must be whole numbers in 0.."),
        ({"images": np.zeros((4, 2, 2))}, "holds images, but must hold the arrays of one kind"),
        ({"spikes": np.zeros((4, 2)), "labels": np.zeros(4, int)}, "spikes must be [N, T, ...]"),
        ({"spikes": np.full((4, 2, 3), 300), "labels": np.zeros(4, int)}, "in 0..255, but range over 300..300"),
        ({"pictures": np.zeros((4, 2, 2))}, "holds pictures, but must hold"),
    ],
)
def test_wrong_arrays_are_named_with_the_file(arrays, says, here, bitspike):
    write_npz(here / "own.npz", **arrays)
    line = refuse(bitspike, write_toml(here / "mine.toml", 'file = "own.npz"', "4-3"))
    assert "own.npz: " in line
    assert says in line


def test_a_missing_file_is_named_in_full(here, bitspike):
    line = refuse(bitspike, write_toml(here / "mine.toml", 'file = "gone.npz"', "4-3"))
    assert line == f"bitspike: data.file: {here / 'gone.npz'} does not exist; paths are relative to the experiment file"


def test_a_missing_test_file_too(here, bitspike):
    line = refuse(bitspike, images_toml(here, 'file = "images.npz"\ntest_file = "gone.npz"'))
    assert line == f"bitspike: data.test_file: {here / 'gone.npz'} does not exist; did you mean images.npz?"


def test_a_file_of_another_kind(here, bitspike):
    (here / "own.npz").write_text("not an archive")
    line = refuse(bitspike, write_toml(here / "mine.toml", 'file = "own.npz"', "4-3"))
    assert "must be an npz or HDF5 file" in line


def test_one_sample_of_a_class_cannot_be_tested(here, bitspike):
    write_npz(here / "own.npz", images=np.zeros((3, 2, 2)), labels=np.arange(3))
    assert "has 3 samples and no two of one class" in refuse(
        bitspike, write_toml(here / "mine.toml", 'file = "own.npz"', "4-3")
    )


# ---- Splits


def labels_of(parts):
    return {name: part.labels.bincount(minlength=3).tolist() for name, part in parts.items()}


def test_the_three_parts_are_stratified_and_disjoint(here):
    arrays = {**image_arrays(60), "images": np.arange(60 * 4).reshape(60, 2, 2).astype(np.uint8)}
    write_npz(here / "images.npz", **arrays)
    spec = read_experiment(write_toml(here / "mine.toml", 'file = "images.npz"\nvalidation_share = 0.25', "4-3"))
    parts = splits(spec, open_dataset(spec.data))
    assert labels_of(parts) == {"train": [12] * 3, "valid": [4] * 3, "test": [4] * 3}
    rows = [row.flatten().tolist() for part in parts.values() for row in part.values]
    assert len(rows) == 60
    assert sorted(rows) == sorted(arrays["images"].reshape(60, 4).tolist())


def test_splits_are_fixed_by_their_seed_alone(here):
    toml = images_toml(here)
    spec = read_experiment(toml)

    def test_rows(seed, split_seed):
        data = spec.data.model_copy(update={"split_seed": split_seed})
        return open_dataset(data, seed=seed).test.values

    assert torch.equal(test_rows(0, 0), test_rows(1, 0))
    assert not torch.equal(test_rows(0, 0), test_rows(0, 1))


def test_the_paper_protocol_trains_on_all(here):
    spec = read_experiment(images_toml(here))
    paper = spec.model_copy(update={"train": spec.train.model_copy(update={"protocol": "paper"})})
    assert {name: len(part) for name, part in splits(paper, open_dataset(spec.data)).items()} == {
        "train": 24,
        "test": 6,
    }


def test_limits_draw_with_the_split_seed(here):
    write_npz(here / "more.npz", **image_arrays(12, seed=5))  # so that the seed decides nothing else
    config = read_experiment(images_toml(here, 'file = "images.npz"\ntest_file = "more.npz"')).data

    def limited_to(**fields):
        return open_dataset(config.model_copy(update=fields))

    whole, few = limited_to(), limited_to(train_limit=10, test_limit=2)
    assert (len(few.train), len(few.test)) == (10, 2)
    assert torch.equal(few.train.values, limited_to(train_limit=10, test_limit=2).train.values)
    other = limited_to(train_limit=10, test_limit=2, split_seed=1)
    assert not torch.equal(few.train.values, other.train.values)
    assert not torch.equal(few.test.values, other.test.values)
    pool = {tuple(row.flatten().tolist()) for row in whole.train.values}
    assert all(tuple(row.flatten().tolist()) in pool for row in few.train.values)
    assert len(limited_to(train_limit=1000).train) == len(whole.train)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.floats(0, 0.99), st.integers(0, 5))
def test_what_is_held_out_and_what_is_kept_are_all_of_it(labels, share, seed):
    labels = torch.tensor(labels)
    kept, held = held_out(labels, share, seed)
    assert sorted(torch.cat((kept, held)).tolist()) == list(range(len(labels)))
    for label in labels.unique():
        count, out = int((labels == label).sum()), int((labels[held] == label).sum())
        assert out < count  # something is left to learn from
        assert out >= (1 if share > 0 and count > 1 else 0)
        assert abs(out - share * count) <= 1
    assert all(torch.equal(a, b) for a, b in zip(held_out(labels, share, seed), (kept, held), strict=True))


@given(st.integers(0, 50), st.one_of(st.none(), st.integers(1, 60)), st.integers(0, 5))
def test_a_limit_draws_rows_once_and_in_order(samples, limit, seed):
    rows = limited(samples, limit, seed).tolist()
    assert len(rows) == min(samples, limit or samples)
    assert rows == sorted(set(rows))
    assert all(0 <= row < samples for row in rows)


# ---- From Python


def test_kinds_give_their_types(here):
    images = open_dataset(read_experiment(images_toml(here)).data)
    assert isinstance(images.train, Images)
    assert images.title == "images.npz"
    assert images.edition.startswith("sha256 ")
    assert isinstance(open_dataset(read_experiment(write_kind(here, "events")[0]).data).train, Frames)


@pytest.mark.parametrize("labels", [np.arange(30) % 10 + 1, np.arange(30) % 3 + 20, np.array([0, 5, 999] * 10)])
def test_labels_that_do_not_start_at_zero_or_have_gaps_are_numbered_anew(here, bitspike, labels):
    found = np.unique(labels)
    write_npz(here / "own.npz", **(image_arrays() | {"labels": labels}))
    toml = write_toml(here / "own.toml", 'file = "own.npz"', f"16-8-{len(found)}")
    data = open_dataset(read_experiment(toml).data)
    assert data.classes == len(found)
    assert data.class_names == data.file_labels == tuple(map(str, found))
    assert bitspike("train", toml, "--out", "run", "--epochs", 1)[0] == 0
    line = bitspike("train", toml, "--out", "few", "--set", "net.notation=16-8-2")[2]
    assert line.endswith(f"has 2 outputs, but own.npz has {len(found)} classes; end it in Dense{len(found)}")


def test_five_samples_of_five_classes_say_what_is_missing(here):
    write_npz(here / "own.npz", **image_arrays(5, classes=5, side=5))
    with pytest.raises(
        ValueError, match=r"has 5 samples and no two of one class, .* give data\.test_file, or more samples"
    ):
        open_dataset(DataConfig(file=here / "own.npz"))


def test_another_file_is_another_edition(here):
    write_npz(here / "a.npz", **image_arrays(seed=0))
    write_npz(here / "b.npz", **image_arrays(seed=1))
    first, second = (open_dataset(DataConfig(file=here / f"{name}.npz")) for name in "ab")
    assert first.edition != second.edition


def test_another_test_file_is_another_edition(here):
    write_npz(here / "train.npz", **image_arrays())
    editions = []
    for seed in (1, 2):
        write_npz(here / "test.npz", **image_arrays(12, seed=seed))
        editions.append(open_dataset(DataConfig(file=here / "train.npz", test_file=here / "test.npz")).edition)
    assert editions[0] != editions[1]


@pytest.mark.parametrize(
    ("name", "options", "error", "says"),
    [
        ("mnits", {}, ValueError, "unknown data set 'mnits': did you mean 'mnist'"),
        ("mnist", {"bin_mss": 3}, ValueError, r"load\('mnist'\): no field is named 'bin_mss'; did you mean 'bin_ms'"),
        ("mnist", {"train_limit": 0}, ValueError, "train_limit: must be greater than or equal to 1, but is 0"),
        ("mnist", {"sensor": [3]}, ValueError, "sensor belongs to your own data"),
        ("mnist", {"file": "x.npz"}, ValueError, "give either data.name, a built-in set, or data.file"),
        ("mnist", {}, FileNotFoundError, "bitspike data fetch mnist"),
    ],
)
def test_loading_by_name_says_what_is_wrong(name, options, error, says, here):
    with pytest.raises(error, match=says) as raised:
        load(name, **options)
    assert "\n" not in str(raised.value)


def test_the_coding_task_needs_no_data(here):
    data = load("coding")
    assert (data.name, data.classes, data.shape, len(data.train)) == ("coding", 1, (100,), 1)
    assert data.train.labels.tolist() == [75]


@pytest.mark.parametrize("option", ["bin_ms", "steps", "train_limit"])
def test_options_that_the_coding_task_does_not_have_are_refused(option, here):
    with pytest.raises(ValueError, match=option):
        load("coding", **{option: 3})
