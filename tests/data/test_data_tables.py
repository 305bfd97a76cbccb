"""`load("FILE.toml")` reads the samples that training reads: its table [data], with paths relative to the file."""

import numpy as np
import pytest
import torch

import bitspike
from bitspike.data.config import DataConfig
from bitspike.data.data_tables import is_toml, read_data_config
from bitspike.data.datasets import open_dataset
from helpers.files import event_arrays, write_npz


@pytest.fixture
def toml(tmp_path):
    write_npz(tmp_path / "mine.npz", **event_arrays())
    path = tmp_path / "mine.toml"
    path.write_text('[data]\nfile = "mine.npz"\ntime_unit = "us"\nbin_ms = 0.05\nsteps = 10\n')
    return path


def test_a_file_with_data_alone_is_enough(toml, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    config = DataConfig(file=tmp_path / "mine.npz", time_unit="us", bin_ms=0.05, steps=10)
    expected, data = open_dataset(config, root=tmp_path), bitspike.data.load(str(toml), root=tmp_path)
    assert torch.equal(data.train.index, expected.train.index)
    assert data.edition == expected.edition
    assert repr(bitspike.data.load(toml, root=tmp_path)) == repr(data)


def test_options_take_the_place_of_fields(toml, tmp_path):
    assert bitspike.data.load(toml, root=tmp_path, steps=4).train.steps == 4


def test_the_rest_of_the_file_does_not_matter(toml, tmp_path):
    toml.write_text(toml.read_text() + "[net]\nnotation = 5\n[nonsense]\n")
    assert bitspike.data.load(toml, root=tmp_path).train.steps == 10


@pytest.mark.parametrize(("name", "expected"), [("a.toml", True), ("A.TOML", True), ("shd", False), ("a.npz", False)])
def test_names(name, expected):
    assert is_toml(name) == expected


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("[net]\n", {}, r"mine\.toml: has no table \[data\], which says where the samples are"),
        ("data = 5\n", {}, r"has no table \[data\]"),
        ("[data]\nname = ", {}, r"mine\.toml is not valid TOML"),
        (
            "[data] name = 'shd'",
            {},
            r"mine\.toml is not valid TOML: .*; \[data\] needs a line of its own, with the fields",
        ),
        (
            "[data]\nfile = 'x.npz'\nbin = 5\n",
            {},
            r"mine\.toml: \[data\]: no field is named 'bin'; did you mean 'bin_ms'",
        ),
        ("[data]\nfile = 'x.npz'\n", {"steps": 0}, "steps: must be greater than or equal to 1, but is 0"),
        ('[data]\nfile = "C:\\new.npz"\n', {}, "write a path with backslashes in single quotes"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(toml, text, options, says):
    toml.write_text(text)
    with pytest.raises(ValueError, match=says) as caught:
        bitspike.data.load(toml, **options)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.toml does not exist"):
        bitspike.data.load(tmp_path / "no.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(FileNotFoundError, match=r"folder\.toml is not a file"):
        read_data_config(tmp_path / "folder.toml", {})


def test_lists_of_files_are_relative_to_the_file_too(toml, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    write_npz(tmp_path / "more.npz", **event_arrays())
    toml.write_text(toml.read_text().replace('"mine.npz"', '["mine.npz", "more.npz"]'))
    data = bitspike.data.load(toml, root=tmp_path)
    assert len(data.train) + len(data.test) == 2 * len(np.asarray(event_arrays()["labels"]))


@pytest.mark.parametrize("name", ["x.npz", "data/x.H5"])
def test_a_file_of_samples_is_no_experiment_file(name):
    with pytest.raises(ValueError, match="load: ") as caught:
        bitspike.data.load(name)
    file = name.rpartition("/")[2]
    assert str(caught.value) == (
        f"load: {name} is a file of samples, but load takes an experiment file; write x.toml beside it with the lines "
        f"[data], file = '{file}' and, for events in t, time_unit = 'us' (or 'ms', 's'), and give that"
    )
