"""Protocol `holdout` holds out whole groups: SHD's speakers, the users of DVS128, the groups of a user's own file."""

import json
import re

import h5py
import numpy as np
import pytest
import torch

from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import identity
from bitspike.experiments.held_out import held_out_groups, held_out_in_words, splits
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment, with_values
from helpers.files import event_arrays, fake_shd, gesture_files, gesture_recording, write_folder, write_npz

TINY = ["net.notation=700Dense8Dense20", "data.steps=10", "train.epochs=1", "train.tensorboard=false"]


@pytest.fixture
def shd(workplace, tmp_path):
    """A small SHD in the data root; its speakers 0, 1, 2 and 6 are for training."""
    return fake_shd(tmp_path / "root")


def experiment(*settings):
    return with_values(preset("shd/annealed"), [*TINY, *settings])


def parts(spec):
    return splits(spec, open_dataset(spec.data))


def test_speakers_are_held_out_and_never_samples(shd):
    spec = experiment("data.validation_share=0.3")
    found = parts(spec)
    kept, held = (set(found[name].groups.tolist()) for name in ("train", "valid"))
    assert kept | held == {0, 1, 2, 6}
    assert not kept & held
    assert len(held) == 1  # of four with as many samples each
    assert {len(found["train"]), len(found["valid"])} == {60, 20}
    assert held_out_groups(spec, open_dataset(spec.data)) == sorted(held)
    assert found["test"].groups.unique().tolist() == [0, 4]


def test_the_split_seed_draws_the_speakers_and_the_seed_does_not(shd):
    data = open_dataset(experiment().data)
    drawn = {held_out_in_words(experiment(f"data.split_seed={seed}"), data) for seed in range(12)}
    assert any(words.startswith("speakers 0 (") for words in drawn)
    assert all(words.startswith("speakers ") for words in drawn)
    assert len({held_out_in_words(experiment(f"seed={seed}"), data) for seed in range(5)}) == 1


def test_named_speakers_are_held_out(shd):
    spec = experiment("data.validation_groups=[6, 1]", "data.validation_share=0")
    assert set(parts(spec)["valid"].groups.tolist()) == {1, 6}
    assert held_out_in_words(spec, open_dataset(spec.data)).startswith("speakers 1, 6 (")


def test_the_papers_protocol_holds_out_nobody(shd):
    spec = experiment("train.protocol=paper", "data.validation_groups=[6]")
    assert len(parts(spec)["train"]) == 80
    assert held_out_in_words(spec, open_dataset(spec.data)) == ""


def test_a_limit_on_samples_keeps_speakers_apart(shd):
    found = parts(experiment("data.train_limit=50"))
    assert len(found["train"]) + len(found["valid"]) == 50
    assert not set(found["train"].groups.tolist()) & set(found["valid"].groups.tolist())


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("data.validation_groups=[3]", "have no speakers 3; they have 0, 1, 2, 6"),
        ("data.validation_groups=[0, 1, 2, 6]", r"holds out all speakers \(0, 1, 2, 6\); leave one out"),
    ],
)
def test_speakers_that_cannot_be_held_out(shd, setting, says):
    with pytest.raises(ValueError, match=says) as error:
        parts(experiment(setting))
    assert "\n" not in str(error.value)


def test_no_groups_to_name_is_an_empty_list():
    with pytest.raises(ValueError, match=r"data\.validation_groups"):
        experiment("data.validation_groups=[]")


def test_files_without_speakers_are_said_under_holdout_and_serve_the_papers_protocol(shd):
    for part in ("train", "test"):
        with h5py.File(shd / f"shd_{part}.h5", "a") as file:
            del file["extra"]
    with pytest.raises(
        ValueError, match=r"holds out whole speakers, but the files of .* do not name them; get the publ"
    ):
        parts(experiment())
    assert len(parts(experiment("train.protocol=paper"))["train"]) == 80


def test_one_speaker_cannot_be_held_out(shd):
    fake_shd(shd.parent, speakers=(3,))
    with pytest.raises(ValueError, match="needs two speakers to hold one out"):
        parts(experiment())


def test_the_run_says_which_speakers_are_held_out(shd, cli, workplace):
    words = [word for pair in (*TINY, "data.validation_groups=[2]") for word in ("--set", pair)]
    status, _, err = cli("train", "shd/annealed", "--out", workplace / "run", "--device", "cpu", *words)
    assert status == 0
    assert re.search(r"held out: speakers 2 \(\d+ of \d+ samples\)\n", err)
    summary = json.loads((workplace / "run/summary.json").read_text())
    assert summary["held_out"] == {"speakers": [2]}
    assert summary["samples"] == {"train": 60, "valid": 20, "test": 40}


def test_a_run_that_held_out_samples_is_not_taken_for_this_one(shd):
    """Earlier versions knew no speakers; settings that decide the numbers are the same."""
    spec = experiment()
    data = open_dataset(spec.data)
    before = open_dataset(spec.data)
    object.__setattr__(before.train, "groups", None)
    object.__setattr__(before, "group_names", "")
    assert identity(spec, data) != identity(spec, before)
    paper = experiment("train.protocol=paper")
    assert identity(paper, data) == identity(paper, before)


# ---- Other sets


def test_users_of_dvs128_are_groups(workplace, tmp_path):
    spans = [(label, 1000 * label, 1000 * label + 900) for label in range(1, 12)]
    names = {"user01_led": "train", "user01_lab": "train", "user02_led": "train", "user24_led": "test"}
    trials = {name: (split, spans, gesture_recording(spans, seed=i)) for i, (name, split) in enumerate(names.items())}
    write_folder(tmp_path / "root" / "dvs128", gesture_files(trials))
    spec = with_values(preset("dvs128/annealed"), ["data.validation_share=0.3"])
    found = parts(spec)
    assert set(found["valid"].groups.tolist()) == {2}
    assert set(found["train"].groups.tolist()) == {1}
    assert held_out_in_words(spec, open_dataset(spec.data)).startswith("users 2 (")


def own_experiment(folder, kind, **more):
    groups = np.arange(40) // 8
    if kind == "events":
        arrays, table = event_arrays(40), "bin_ms = 1.0\nsteps = 20\n"
    elif kind == "images":
        arrays, table = {"images": np.zeros((40, 6, 6), np.uint8), "labels": np.arange(40) % 3}, ""
    else:
        arrays, table = {"spikes": np.ones((40, 5, 6), np.uint8), "labels": np.arange(40) % 3}, ""
    write_npz(folder / "own.npz", **(arrays | {"groups": groups} | more))
    (folder / "own.toml").write_text(
        f"[data]\nfile = 'own.npz'\nvalidation_share = 0.25\n{table}[net]\nnotation = '36Dense3'\nbeta = 0.5\n"
        "slope = 1.0\ntheta = 1.0\n[train]\nepochs = 1\nlr = 1e-3\n"
    )
    return read_experiment(folder / "own.toml")


@pytest.mark.parametrize("kind", ["events", "images", "spikes"])
def test_groups_of_an_own_file_are_divided_neither_for_the_test_nor_for_validation(workplace, kind):
    spec = own_experiment(workplace, kind)
    found = {name: set(part.groups.tolist()) for name, part in parts(spec).items()}
    assert found["train"] | found["valid"] | found["test"] == set(range(5))
    assert [len(found[name]) for name in ("train", "valid", "test")] == [3, 1, 1]
    assert held_out_in_words(spec, open_dataset(spec.data)).startswith("groups ")


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (np.zeros(39, int), "groups must be as many as labels, 40, but there are 39"),
        (np.full(40, 0.5), "groups must be whole numbers, but some are fractions"),
        (np.zeros(40, int), "all samples of own.npz are in one group"),
    ],
)
def test_wrong_groups_of_an_own_file(workplace, groups, says):
    with pytest.raises(ValueError, match=says):
        open_dataset(own_experiment(workplace, "images", groups=groups).data)


def test_own_files_without_groups_have_none_to_name(workplace):
    spec = own_experiment(workplace, "images")
    write_npz(workplace / "own.npz", images=np.zeros((40, 6, 6), np.uint8), labels=np.arange(40) % 3)
    named = with_values(spec, ["data.validation_groups=[1]"])
    with pytest.raises(ValueError, match=r"data\.validation_groups names groups, but those of own\.npz are not known"):
        parts(named)
    assert parts(spec)["valid"].groups is None
    assert held_out_groups(spec, open_dataset(spec.data)) is None
    assert train_run(spec, workplace / "run", RunOptions(device=torch.device("cpu")))["held_out"] is None
