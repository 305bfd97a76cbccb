"""Own data in several files: lists and patterns, a file for validation, groups by file, where time begins, limits."""

import json

import h5py
import numpy as np
import pytest
import torch

from bitspike.data.config import DataConfig
from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Frames
from bitspike.experiments.held_out import held_out_in_words, splits
from bitspike.experiments.schema import as_toml, read_experiment, read_run_experiment, with_values
from helpers.files import event_arrays, write_hdf5, write_npz
from helpers.own_files import images, opened, spec_of, write_toml


def spikes(samples, *, steps=6, units=5):
    rng = np.random.default_rng(samples)
    return {"spikes": rng.random((samples, steps, units)) < 0.5, "labels": np.arange(samples) % 3}


def dense(samples):
    return samples.batch(torch.arange(len(samples)))[0]


# ---- Several files

KINDS = {
    "images": (images, ""),
    "spikes": (spikes, ""),
    "events": (lambda count: event_arrays(count, seed=count), "bin_ms = 2.0\nsteps = 6\nsensor = [6, 6]\n"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("files", ['["b.npz", "a.h5"]', '"data/rec-*"'])
def test_samples_of_several_files_come_in_their_order(workplace, kind, files):
    arrays, table = KINDS[kind]
    (workplace / "data").mkdir()
    names = ("b.npz", "a.h5") if "[" in files else ("data/rec-1.npz", "data/rec-2.h5")
    write_npz(workplace / names[0], **arrays(7))
    write_hdf5(workplace / names[1], **arrays(5))
    write_npz(workplace / "test.npz", **arrays(6))
    table += 'test_file = "test.npz"\n'
    data = opened(workplace, f"file = {files}\n{table}")
    parts = [opened(workplace, f'file = "{name}"\n{table}').train for name in names]
    axis = 0 if kind == "images" else 1
    assert dense(data.train).equal(torch.cat([dense(part) for part in parts], axis))
    assert data.train.labels.tolist() == [*(i % 3 for i in range(7)), *(i % 3 for i in range(5))]
    assert data.title == f"{names[0].rpartition('/')[2]} and 1 more"


@pytest.mark.parametrize("field", ["test_file", "validation_file"])
@pytest.mark.parametrize(("first", "second"), [("images", "events"), ("events", "images"), ("events", "spikes")])
def test_files_of_two_kinds_are_named_with_their_fields(workplace, first, second, field):
    """Not a field of binning, which one of the kinds does not have."""
    write_npz(workplace / "a.npz", **KINDS[first][0](9))
    write_npz(workplace / "b.npz", **KINDS[second][0](9))
    with pytest.raises(
        ValueError, match=rf"^data\.{field}: b\.npz holds {second}, but a\.npz of data\.file {first}; all"
    ):
        opened(workplace, f'file = "a.npz"\n{field} = "b.npz"')


def test_a_file_without_any_event_is_named(workplace):
    empty = {"t": np.zeros(0), "x": np.zeros(0, int), "offsets": np.zeros(7, int), "labels": np.arange(6) % 3}
    write_npz(workplace / "a.npz", **empty)
    with pytest.raises(ValueError, match=r"^data: no training sample of a\.npz has an event; look at t and offsets"):
        opened(workplace, 'file = "a.npz"\ntime_unit = "us"')


def test_a_path_that_leads_nowhere_says_what_may_be_meant(workplace):
    (workplace / "sub").mkdir()
    write_npz(workplace / "sub" / "touch.npz", **images(9))
    for given, says in {
        "sub/tuch.npz": r"does not exist; did you mean touch\.npz\?$",
        "sub/zzzzz": r"does not exist; paths are relative to the experiment file$",
        "sub": r"is not a file; give '.*sub.\*\.npz' for all such files in it$",
    }.items():
        with pytest.raises(FileNotFoundError, match=rf"^data\.file: .*{says}"):
            opened(workplace, f"file = '{given}'")


def test_each_file_of_a_list_counts_in_the_edition_and_in_the_cache(workplace):
    table = 'file = "rec-*.npz"\nbin_ms = 2.0\nsteps = 6\nsensor = [6, 6]'
    for name in "ab":
        write_npz(workplace / f"rec-{name}.npz", **event_arrays(6, seed=1))
    first = opened(workplace, table)
    write_npz(workplace / "rec-b.npz", **event_arrays(6, seed=2))
    second = opened(workplace, table)
    assert first.edition != second.edition
    assert int(first.train.count.sum()) != int(second.train.count.sum())
    write_npz(workplace / "rec-c.npz", **event_arrays(6, seed=3))
    third = opened(workplace, table)
    assert third.edition not in (first.edition, second.edition)
    assert len(third.train) + len(third.test) == 18


def test_the_sensor_of_a_list_is_as_large_as_the_largest(workplace):
    events = {"t_us": np.arange(6), "offsets": np.array([0, 3, 6]), "labels": np.array([0, 1])}
    write_npz(workplace / "a.npz", **events, x=np.array([0, 1, 2, 0, 1, 2]))
    write_npz(workplace / "b.npz", **events, x=np.array([0, 1, 9, 0, 1, 2]))
    assert opened(workplace, 'file = ["a.npz", "b.npz"]\nbin_ms = 1.0\nsteps = 2').shape == (10,)


def test_a_run_on_several_files_is_evaluated_and_resumed(workplace, cli):
    for name, count in (("rec-1", 15), ("rec-2", 18)):
        write_npz(workplace / f"{name}.npz", **images(count))
    toml = write_toml(workplace, 'file = "rec-*.npz"')
    assert cli("train", toml, "--out", workplace / "run", "--device", "cpu")[0] == 0
    status, out, _ = cli("evaluate", workplace / "run", "--json", "--device", "cpu")
    assert status == 0
    assert json.loads(out)["warnings"] == []
    again = cli("train", toml, "--out", workplace / "run", "--device", "cpu", "--resume", "--epochs", 2)
    assert again[0] == 0
    write_npz(workplace / "rec-3.npz", **images(21))
    status, _, err = cli("train", toml, "--out", workplace / "run", "--device", "cpu", "--resume", "--epochs", 2)
    assert status == 1
    assert "rec-3.npz hold sha256" in err.strip().splitlines()[-1]


def test_a_run_keeps_the_files_that_its_patterns_stood_for(workplace, cli):
    for name in ("rec-1", "rec-2", "test-1"):
        write_npz(workplace / f"{name}.npz", **images(15))
    toml = write_toml(workplace, 'file = "rec-*.npz"\ntest_file = "test-?.npz"\nvalidation_file = "rec-1.npz"')
    assert cli("train", toml, "--out", workplace / "run", "--device", "cpu")[0] == 0
    write_npz(workplace / "rec-3.npz", **images(18))
    write_npz(workplace / "test-2.npz", **images(21))
    kept = read_run_experiment(workplace / "run" / "experiment.toml").data
    assert kept.file == (workplace / "rec-1.npz", workplace / "rec-2.npz")
    assert (kept.test_file, kept.validation_file) == (workplace / "test-1.npz", workplace / "rec-1.npz")
    status, out, _ = cli("evaluate", workplace / "run", "--json", "--device", "cpu")
    assert status == 0
    assert (json.loads(out)["samples"], json.loads(out)["warnings"]) == (15, [])


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('file = "rec-*.npz"', r"data\.file: no file matches .*rec-\*\.npz; look at the folder and the pattern"),
        ('file = ["a.npz", "gone.npz"]', r"gone\.npz does not exist"),
        ('file = ["a.npz", "a.npz"]', r"data\.file names .*a\.npz twice; leave one out"),
        ('file = ["a.npz", "large.npz"]', r"samples of a\.npz are \(1, 4, 4\), but those of large\.npz \(1, 5, 5\)"),
        ('file = ["a.npz", "spikes.npz"]', r"a\.npz holds images, but spikes\.npz spikes; use one kind"),
        ('file = ["spikes.npz", "long.npz"]', r"are \(5,\) in 6 time steps, but those of long\.npz \(5,\) in 9 time"),
        ('file = ["a.npz", "float.npz"]', r"images of a\.npz are bytes, but those of float\.npz floating point"),
        ('file = ["a.npz", "groups.npz"]', r"groups\.npz has an array groups, but a\.npz has none"),
        ('file = "a.npz"\ngroups = "file"', r"data\.groups = 'file' makes a group of each file, but data\.file is one"),
        ('file = "a.npz"\ngroups = "array"', r"data\.groups = 'array', but a\.npz has no array groups; add it"),
        ('file = "a.npz"\ntime_origin = "zero"', r"data\.time_origin has no meaning here: a\.npz holds images"),
        ('file = ["xy.npz", "x.npz"]\nbin_ms = 1.0\nsteps = 2', r"xy\.npz has an array y, but x\.npz has none"),
    ],
)
def test_files_that_do_not_go_together(workplace, table, says):
    write_npz(workplace / "a.npz", **images(6))
    write_npz(workplace / "large.npz", **images(6, side=5))
    write_npz(workplace / "groups.npz", **images(6, groups=np.arange(6)))
    write_npz(workplace / "float.npz", images=np.zeros((6, 4, 4), np.float32), labels=np.arange(6) % 3)
    write_npz(workplace / "spikes.npz", **spikes(6))
    write_npz(workplace / "long.npz", **spikes(6, steps=9))
    events = {"t_us": np.arange(6), "offsets": np.array([0, 3, 6]), "labels": np.array([0, 1]), "x": np.zeros(6, int)}
    write_npz(workplace / "x.npz", **events)
    write_npz(workplace / "xy.npz", **events, y=np.zeros(6, int))
    with pytest.raises((ValueError, FileNotFoundError), match=says) as error:
        opened(workplace, table)
    assert "\n" not in str(error.value)


def test_a_name_with_brackets_is_no_pattern(workplace):
    (workplace / "old [1]").mkdir()
    write_npz(workplace / "old [1]" / "a[2].npz", **images(6))
    write_npz(workplace / "old [1]" / "rec-1.npz", **images(9))
    assert opened(workplace, 'file = "old [1]/a[2].npz"').title == "a[2].npz"
    assert opened(workplace, 'file = "old [1]/rec-*.npz"').title == "rec-1.npz"


@pytest.mark.parametrize("wrong", ["[]", "3", '["a.npz", 3]', "[[1]]"])
def test_what_is_no_path(workplace, wrong):
    with pytest.raises(ValueError, match=r"data\.file: must be a path, a pattern or a list of them, but is"):
        spec_of(workplace, f"file = {wrong}")


@pytest.mark.parametrize("wrong", ["[]", '"a"', "[1]", '[""]', '["a\\n"]'])
def test_what_is_no_list_of_names(workplace, wrong):
    with pytest.raises(ValueError, match=r"data\.class_names: must be a list of texts, of 1 to 100 printable"):
        spec_of(workplace, f'file = "a.npz"\nclass_names = {wrong}')


# ---- Validation


def test_a_validation_file_is_all_that_epochs_are_judged_by(workplace, cli):
    for name, count in (("train", 12), ("valid", 9), ("test", 6)):
        write_npz(workplace / f"{name}.npz", **images(count))
    toml = write_toml(workplace, 'file = "train.npz"\nvalidation_file = "valid.npz"\ntest_file = "test.npz"')
    spec = read_experiment(toml)
    data = open_dataset(spec.data)
    assert {name: len(part) for name, part in splits(spec, data).items()} == {"train": 12, "valid": 9, "test": 6}
    status, _, err = cli("train", toml, "--out", workplace / "run", "--device", "cpu")
    assert status == 0
    assert "12 samples for training, 9 for validation, 6 for testing; protocol holdout" in err
    summary = json.loads((workplace / "run/summary.json").read_text())
    assert summary["samples"] == {"train": 12, "valid": 9, "test": 6}
    assert set(summary["samples_sha256"]) == {"train", "test", "valid"}
    status, out, _ = cli("evaluate", workplace / "run", "--split", "valid", "--json", "--device", "cpu")
    assert json.loads(out)["accuracy"] == summary["valid_accuracy"]
    write_npz(workplace / "valid.npz", **images(9) | {"images": images(9)["images"][::-1]})
    _, out, _ = cli("evaluate", workplace / "run", "--split", "valid", "--json", "--device", "cpu")
    assert "the validation samples" in json.loads(out)["warnings"][0]


def test_a_run_with_a_validation_file_can_be_read_again(workplace):
    write_npz(workplace / "a.npz", **images(6))
    spec = spec_of(workplace, 'file = "a.npz"\nvalidation_file = ["a.npz"]')
    (workplace / "again.toml").write_text(as_toml(spec))
    assert read_experiment(workplace / "again.toml").data == spec.data


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (
            'validation_file = "v.npz"\nvalidation_share = 0.2',
            r"data\.validation_share has no meaning beside data\.vali",
        ),
        ('validation_file = "v.npz"\nvalidation_groups = [1]', r"data\.validation_groups has no meaning beside data\."),
        ('validation_file = "v.npz"\nvalidation_share = 0.1', r"data\.validation_share has no meaning beside data\."),
        ('test_file = "v.npz"\ntest_share = 0.2', r"data\.test_share has no meaning beside data\.test_file"),
        ('test_file = "v.npz"\ntest_share = 0.3', r"data\.test_share has no meaning beside data\.test_file"),
    ],
)
def test_a_share_beside_a_file_is_refused(workplace, table, says):
    with pytest.raises(ValueError, match=says):
        spec_of(workplace, f'file = "a.npz"\n{table}')


def test_the_papers_protocol_has_no_use_for_a_validation_file(workplace):
    write_npz(workplace / "a.npz", **images(12))
    spec = with_values(spec_of(workplace, 'file = "a.npz"\nvalidation_file = "a.npz"'), ["train.protocol=paper"])
    with pytest.raises(ValueError, match=r"data\.validation_file is for train\.protocol = 'holdout'"):
        splits(spec, open_dataset(spec.data))


# ---- Groups by file


def test_each_file_can_be_a_group(workplace):
    for count in range(6, 11):
        write_npz(workplace / f"rec-{count}.npz", **images(count))
    spec = spec_of(workplace, 'file = "rec-*.npz"\ngroups = "file"\nvalidation_share = 0.2')
    data = open_dataset(spec.data)
    parts = [set(part.groups.tolist()) for part in splits(spec, data).values()]
    assert set.union(*parts) == set(range(5))
    assert sum(map(len, parts)) == 5
    assert held_out_in_words(spec, data).startswith("files rec-")


# ---- Time


def two_samples(path, t, **more):
    with h5py.File(path, "w") as file:
        arrays = {"t": t, "x": np.zeros(len(t), int), "offsets": [0, 2, len(t)], "labels": [0, 1], **more}
        for name, values in arrays.items():
            file[name] = np.asarray(values)


@pytest.mark.parametrize(
    ("origin", "bins"), [(None, [[0, 2], [0, 1]]), ("first", [[0, 2], [0, 1]]), ("zero", [[3, 5], [1, 2]])]
)
def test_bins_count_from_the_first_event_or_from_zero(workplace, origin, bins):
    two_samples(workplace / "a.h5", [3, 5, 1, 2])
    both = {"file": workplace / "a.h5", "test_file": workplace / "a.h5", "time_unit": "ms", "bin_ms": 1.0, "steps": 6}
    counts = dense(open_dataset(DataConfig(**both, time_origin=origin)).train)
    assert [counts[:, sample, 0].nonzero().flatten().tolist() for sample in range(2)] == bins


def test_times_before_zero_are_refused_where_time_begins_at_zero(workplace):
    two_samples(workplace / "a.h5", [3, 5, -1, 2])
    table = {"file": workplace / "a.h5", "test_file": workplace / "a.h5", "time_unit": "ms", "bin_ms": 1.0, "steps": 6}
    with pytest.raises(ValueError, match=r"t must be at least 0 where time_origin is 'zero', but 1 of 4 are less"):
        open_dataset(DataConfig(**table, time_origin="zero"))
    assert len(open_dataset(DataConfig(**table)).train) == 2


def test_samples_of_any_duration_load_and_silent_ones_are_told(workplace, cli):
    t = np.concatenate([[0, 1, 2, 3], [0, 5_000_000], []])  # none, four, a long one, none
    arrays = {"t_us": t, "x": np.zeros(6, int), "offsets": [0, 0, 4, 6, 6], "labels": [0, 1, 1, 0]}
    write_npz(workplace / "own.npz", **{name: np.asarray(values) for name, values in arrays.items()})
    toml = write_toml(workplace, 'file = "own.npz"\ntest_file = "own.npz"\nbin_ms = 1.0\nsteps = 5')
    toml.write_text(toml.read_text().replace("theta = 2.0\nsteps = 5", "theta = 2.0"))  # events have steps of their own
    data = open_dataset(read_experiment(toml).data)
    assert isinstance(data.train, Frames)
    assert data.train.lengths.tolist() == [0, 1, 1, 0]
    settings = ("--set", "net.notation=1-8-2", "--set", "data.validation_share=0.5")
    status, _, err = cli("train", toml, "--out", workplace / "run", "--device", "cpu", *settings)
    assert status == 0
    assert err.count("warning: 2 of 4 test samples are empty: no bin holds an event; leave them out") == 1


# ---- Limits and weights


def test_limits_take_a_share_of_every_class(workplace):
    labels = np.array([0] * 80 + [1] * 16 + [2] * 4)
    write_npz(workplace / "a.npz", images=np.zeros((100, 4, 4), np.uint8), labels=labels)
    data = opened(workplace, 'file = "a.npz"\ntest_file = "a.npz"\ntrain_limit = 25\ntest_limit = 50')
    assert data.train.labels.bincount().tolist() == [20, 4, 1]
    assert data.test.labels.bincount().tolist() == [40, 8, 2]


@pytest.mark.parametrize("loss", ["count", "cross_entropy"])
def test_weights_change_the_loss_of_a_run_and_its_evaluation_alike(workplace, cli, loss):
    labels = np.array([0] * 20 + [1] * 8 + [2] * 4)
    write_npz(workplace / "a.npz", images=images(32)["images"], labels=labels)
    toml = write_toml(workplace, 'file = "a.npz"')
    losses = {}
    for weights in ("none", "balanced"):
        settings = ("--set", f"train.class_weights={weights}", "--set", f"train.loss={loss}")
        out = workplace / weights
        assert cli("train", toml, "--out", out, "--device", "cpu", *settings)[0] == 0
        losses[weights] = json.loads((out / "summary.json").read_text())["test_loss"]
        evaluated = json.loads(cli("evaluate", out, "--json", "--device", "cpu")[1])
        assert evaluated["loss"] == pytest.approx(losses[weights])
    assert losses["none"] != losses["balanced"]


def test_a_channel_may_be_silent_in_one_of_the_files(workplace):
    for name, x in (("a", [0, 1, 2, 0, 1, 2]), ("b", [0, 1, 9, 0, 1, 2]), ("c", [0, 1, 4, 0, 1, 2])):
        events = {"t_us": np.arange(6), "offsets": np.array([0, 3, 6]), "labels": np.array([0, 1])}
        write_npz(workplace / f"{name}.npz", **events, x=np.array(x))
    table = 'file = "a.npz"\ntest_file = "b.npz"\nvalidation_file = "c.npz"\nbin_ms = 1.0\nsteps = 2\n'
    data = opened(workplace, table)
    assert data.train.shape == data.test.shape == data.valid.shape == (10,)
    assert data.test[0][0].nonzero().tolist() == [[0, 0], [0, 1], [0, 9]]
    assert opened(workplace, table).shape == (10,)  # from the cache
    halves = opened(workplace, f"{table}downsample = 2\n")
    assert halves.train.shape == halves.test.shape == (5,)
    write_npz(workplace / "b.npz", **events, x=np.arange(6), y=np.arange(6))
    with pytest.raises(
        ValueError, match=r"shape \(3,\), but those of b.npz \(1, 6, 6\); all files must hold samples of"
    ):
        opened(workplace, table)
