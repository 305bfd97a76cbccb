"""Labels and groups of the user's own files: numbered over all splits, named in the run, missing ones told."""

import json

import numpy as np
import pytest

from bitspike.data.config import DataConfig
from bitspike.data.datasets import open_dataset
from bitspike.data.mistakes import findings
from bitspike.data.profiles import profile
from bitspike.experiments import saved
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.data_warnings import FINDINGS, data_warnings
from bitspike.experiments.held_out import held_out_in_words, splits
from bitspike.experiments.run_data import RunData
from bitspike.experiments.saved import evaluate_run
from helpers.files import write_hdf5, write_npz
from helpers.own_files import images, opened, spec_of, write_toml

# ---- Labels


@pytest.mark.parametrize("write", [write_npz, write_hdf5])
@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([1, 2, 10] * 5, ("1", "2", "10")),
        ([3.0, 7.0] * 5, ("3", "7")),
        ([True, False] * 5, ("0", "1")),
        (["up", "down", "Left"] * 5, ("Left", "down", "up")),
    ],
)
def test_labels_are_numbered_in_their_order(workplace, write, labels, names):
    arrays = images(labels)
    if write is write_hdf5 and arrays["labels"].dtype.kind == "U":
        arrays["labels"] = arrays["labels"].tolist()
    write(workplace / "own.npz", **arrays)
    data = open_dataset(DataConfig(file=workplace / "own.npz", test_file=workplace / "own.npz"))
    assert data.class_names == data.file_labels == names
    texts = [str(int(one)) if not isinstance(one, str) else one for one in labels]
    assert [names[label] for label in data.train.labels.tolist()] == texts


def test_all_splits_share_one_numbering(workplace):
    write_npz(workplace / "train.npz", **images(["b", "d"] * 6))
    write_npz(workplace / "valid.npz", **images(["c", "d"] * 3))
    write_npz(workplace / "test.npz", **images(["a", "d"] * 2))
    spec = spec_of(workplace, 'file = "train.npz"\nvalidation_file = "valid.npz"\ntest_file = "test.npz"')
    data = open_dataset(spec.data)
    assert data.class_names == ("a", "b", "c", "d")
    found = {split: part.labels.unique().tolist() for split, part in splits(spec, data).items()}
    assert found == {"train": [1, 3], "valid": [2, 3], "test": [0, 3]}


def test_classes_can_be_named(workplace):
    write_npz(workplace / "own.npz", **images([1, 5, 9] * 4))
    names = 'file = "own.npz"\nclass_names = ["one", "five", "nine"]'
    data = opened(workplace, names)
    assert (data.class_names, data.file_labels) == (("one", "five", "nine"), ("1", "5", "9"))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ('["a", "b"]', r"data\.class_names must be 3, one for each label \(1, 5, 9\), but are 2"),
        ('["a", "b", "a"]', r"data\.class_names must differ, but 'a' is there twice"),
    ],
)
def test_wrong_names(workplace, names, says):
    write_npz(workplace / "own.npz", **images([1, 5, 9] * 4))
    with pytest.raises(ValueError, match=says):
        opened(workplace, f'file = "own.npz"\nclass_names = {names}')


def test_numbers_in_one_file_and_text_in_another_are_refused(workplace):
    write_npz(workplace / "a.npz", **images([0, 1] * 4))
    write_npz(workplace / "b.npz", **images(["0", "1"] * 4))
    with pytest.raises(
        ValueError, match=r"labels must be all numbers or all text, but those of a\.npz are numbers .* of b\.npz text"
    ):
        open_dataset(DataConfig(file=workplace / "a.npz", test_file=workplace / "b.npz"))


def test_the_run_keeps_the_names_and_tells_missing_classes(workplace, cli):
    write_npz(workplace / "train.npz", **images(["b", "c"] * 10))
    write_npz(workplace / "test.npz", **images(["a", "b"] * 4))
    toml = write_toml(workplace, 'file = "train.npz"\ntest_file = "test.npz"')
    status, _, err = cli("train", toml, "--out", workplace / "run", "--device", "cpu")
    assert status == 0
    summary = json.loads((workplace / "run/summary.json").read_text())
    assert summary["class_names"] == summary["file_labels"] == ["a", "b", "c"]
    told = [
        "class a (of 3) has no training sample; a network can't learn what it is not shown: add samples, or number the "
        "labels anew",
        "class c (of 3) has no test sample; the result says nothing about what is missing",
    ]
    assert summary["warnings"][:2] == told
    assert [err.count(f"warning: {line}") for line in told] == [1, 1]


@pytest.mark.parametrize(
    ("labels", "names", "rows", "columns"),
    [
        ([1, 2, 3], "", ["1", "2", "3"], "1 2 3"),
        ([1, 5, 12], "", [" 1", " 5", "12"], "1  5 12"),
        ([1, 2, 3], 'class_names = ["cat", "cow", "dog"]', ["1 cat", "2 cow", "3 dog"], "1 2 3"),
        (["cat", "cow", "dog"], "", ["0 cat", "1 cow", "2 dog"], "0 1 2"),
        ([0, 1, 2], "", ["0", "1", "2"], "0 1 2"),
    ],
)
def test_an_evaluation_calls_classes_as_the_file_does(workplace, cli, labels, names, rows, columns):
    write_npz(workplace / "own.npz", **images(labels * 10))
    toml = write_toml(workplace, f'file = "own.npz"\n{names}')
    assert cli("train", toml, "--out", workplace / "run", "--device", "cpu")[0] == 0
    lines = cli("evaluate", workplace / "run", "--device", "cpu")[1].splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("class "))
    assert [line[: len(row)] for line, row in zip(lines[first + 1 : first + 4], rows, strict=True)] == rows
    assert all(line[len(row)] == " " for line, row in zip(lines[first + 1 : first + 4], rows, strict=True))
    matrix = next(place for place, line in enumerate(lines) if line.startswith("confusion matrix"))
    assert lines[matrix + 1].strip().removesuffix("-").strip() == columns
    found = json.loads(cli("evaluate", workplace / "run", "--device", "cpu", "--json")[1])["classes"]
    assert [each["label"] for each in found] == [0, 1, 2]
    assert [each["file_label"] for each in found] == list(map(str, labels))
    in_picture = evaluate_run(workplace / "run", "test", RunOptions()).classification.names
    assert list(in_picture) == [each["name"] for each in found] == [row.split()[-1] for row in rows]


def test_blank_images_are_told_once(workplace, cli):
    arrays = images([0, 1, 2] * 8)
    arrays["images"][:2] = 7
    write_npz(workplace / "test.npz", **arrays)
    write_npz(workplace / "train.npz", **images([0, 1, 2] * 9))
    toml = write_toml(workplace, 'file = "train.npz"\ntest_file = "test.npz"')
    status, _, err = cli("train", toml, "--out", workplace / "run", "--device", "cpu")
    assert status == 0
    line = "2 of 24 test samples are blank: all their pixels have one value; leave them out of the file"
    assert json.loads((workplace / "run/summary.json").read_text())["warnings"][:1] == [line]
    assert err.count("are blank") == 1


def test_the_run_tells_what_data_info_tells(workplace):
    arrays = images(["a", "b", "c"] * 4)
    arrays["images"][[0, 4]] = 0
    write_npz(workplace / "train.npz", **arrays)
    write_npz(workplace / "test.npz", **images(["a", "d"] * 4))
    spec = spec_of(workplace, 'file = "train.npz"\ntest_file = "test.npz"')
    data = open_dataset(spec.data)
    parts = splits(spec, data)
    wanted = [str(each) for each in findings(profile(data, parts)) if each.cause in FINDINGS]
    assert len(wanted) > 2
    assert sorted(data_warnings(data, parts)) == sorted(wanted)


def test_samples_that_an_earlier_version_made_otherwise_are_not_called_replaced(workplace, cli, monkeypatch):
    """The same files with other samples: the numbering of labels, or the draw of limits, was another one."""
    write_npz(workplace / "own.npz", **images([1, 2, 4] * 10))
    toml = write_toml(workplace, 'file = "own.npz"')
    assert cli("train", toml, "--out", workplace / "run", "--device", "cpu")[0] == 0

    def warnings():
        return evaluate_run(workplace / "run", "test", RunOptions()).warnings

    assert warnings() == []
    with monkeypatch.context() as patch:
        patch.setattr(saved, "samples_digests", lambda spec, data: {"train": "other", "test": "other"})
        (line,) = warnings()
        assert line.startswith("the test samples (")
        assert line.endswith(
            "own.npz) come from the same files as the run's, but an earlier version numbered labels or drew limits "
            "otherwise: this is not the run's accuracy; train again"
        )
        (workplace / "run" / "summary.json").write_text("{")
        assert "were changed" in warnings()[0]
        (workplace / "run" / "summary.json").unlink()
        assert "were changed" in warnings()[0]
    write_npz(workplace / "own.npz", **images([1, 4, 2] * 10))
    assert "were changed" in warnings()[0]


# ---- Groups


def test_groups_may_be_text_and_are_held_out_whole(workplace):
    persons = np.array(["anna", "ben", "cleo", "dora", "emil"])[np.arange(40) // 8]
    write_npz(workplace / "own.npz", **images(np.arange(40) % 3, groups=persons))
    spec = spec_of(workplace, 'file = "own.npz"\nvalidation_share = 0.25')
    data = open_dataset(spec.data)
    assert data.group_labels == ("anna", "ben", "cleo", "dora", "emil")
    parts = [set(part.groups.tolist()) for part in splits(spec, data).values()]
    assert sorted(len(part) for part in parts) == [1, 1, 3]
    assert set.union(*parts) == set(range(5))
    held = next(iter(splits(spec, data)["valid"].groups.tolist()))
    assert held_out_in_words(spec, data).startswith(f"groups {data.group_labels[held]} (8 of ")


def test_groups_of_text_are_named_to_be_held_out(workplace):
    persons = np.array(["anna", "ben", "cleo"])[np.arange(24) // 8]
    write_npz(workplace / "own.npz", **images(np.arange(24) % 2, groups=persons))
    write_npz(workplace / "test.npz", **images(np.arange(4) % 2))
    table = 'file = "own.npz"\ntest_file = "test.npz"\n'
    spec = spec_of(workplace, f'{table}validation_groups = ["ben"]')
    assert held_out_in_words(spec, open_dataset(spec.data)) == "groups ben (8 of 24 samples)"
    other = spec_of(workplace, f'{table}validation_groups = ["bob"]')
    with pytest.raises(ValueError, match="have no groups bob; they have anna, ben, cleo"):
        splits(other, open_dataset(other.data))


def test_many_groups_are_counted(workplace):
    write_npz(workplace / "own.npz", **images(np.arange(50) % 2, groups=np.arange(50) // 2))
    write_npz(workplace / "test.npz", **images(np.arange(4) % 2))
    held = list(range(23))
    spec = spec_of(workplace, f'file = "own.npz"\ntest_file = "test.npz"\nvalidation_groups = {held}')
    named = ", ".join(map(str, held[:20]))
    assert held_out_in_words(spec, open_dataset(spec.data)) == f"groups {named} and 3 more (46 of 50 samples)"


def test_groups_of_both_files_are_told(workplace):
    write_npz(workplace / "a.npz", **images(np.arange(24) % 3, groups=np.repeat(["anna", "ben", "cleo"], 8)))
    write_npz(workplace / "b.npz", **images(np.arange(6) % 3, groups=np.repeat(["ben", "dora"], 3)))
    spec = spec_of(workplace, 'file = "a.npz"\ntest_file = "b.npz"\nvalidation_groups = ["cleo"]')
    data = RunData.on_device(spec, open_dataset(spec.data), RunOptions())
    told = "groups ben are among the training and the test samples: the accuracy is not that of new ones"
    assert data.warnings(spec) == [f"{told}; give each of them to one file alone"]


def test_a_file_for_training_and_testing_is_told(workplace):
    write_npz(workplace / "rec-a.npz", **images(np.arange(12) % 3))
    write_npz(workplace / "rec-test.npz", **images(np.arange(15) % 3))
    spec = spec_of(workplace, 'file = "rec-*.npz"\ntest_file = "rec-test.npz"')
    data = RunData.on_device(spec, open_dataset(spec.data), RunOptions())
    line = (
        "rec-test.npz is both in data.file and in data.test_file: the accuracy is that of samples that were trained on"
    )
    assert data.warnings(spec) == [line]
