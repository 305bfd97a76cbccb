"""The catalog's own consistency."""

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import pytest

from bitspike.data.catalog import CATALOG, drawn_from_seed, labels_are_times, lookup, usual_edition
from bitspike.data.entry import UNKNOWN, Found
from bitspike.data.progress import silent
from helpers.files import event_arrays, write_npz


def test_these_are_the_data_sets():
    assert list(CATALOG) == ["mnist", "fashion", "shd", "dvs128", "nmnist-small", "dvs-sign", "coding"]
    assert all(name == entry.name and entry.title and entry.what and entry.licence for name, entry in CATALOG.items())


@pytest.mark.parametrize("entry", CATALOG.values(), ids=CATALOG)
def test_names_are_plain_and_checksums_well_formed(entry):
    names = [edition.name for edition in entry.editions]
    assert len(set(names)) == len(names)
    assert all(not PurePosixPath(folder).is_absolute() and ".." not in folder for folder in entry.folders)
    for edition in entry.editions:
        assert len({file.name for file in edition.files}) == len(edition.files)
        forms = [form for file in edition.files for form in file.forms]
        for form in forms:
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", form.name)
            assert all(urlsplit(url).scheme in ("http", "https") for url in form.urls)
            if form.checksum is not None:
                algorithm, value = form.checksum
                assert re.fullmatch(r"[0-9a-f]+", value)
                assert len(value) == 2 * hashlib.new(algorithm).digest_size
        # What has no checksum is read in full, and is never downloaded.
        assert all(form.checksum for form in forms) == (edition.read is None)
        assert all(form.checksum for form in forms if form.urls)


def test_the_regenerated_shd_goes_by_its_own_name_and_comes_last():
    editions = {edition.name: edition for edition in CATALOG["shd"].editions}
    assert list(editions) == ["published", UNKNOWN, "regenerated"]
    assert editions["regenerated"].title == "SHD regenerated"
    assert not any(form.urls for file in editions["regenerated"].files for form in file.forms)


def test_image_files_are_as_long_as_their_header_and_samples():
    lengths = [file.content[0] for file in CATALOG["mnist"].editions[0].files]
    assert lengths == [16 + 60_000 * 28 * 28, 8 + 60_000, 16 + 10_000 * 28 * 28, 8 + 10_000]
    sums = [file.content[1] for name in ("mnist", "fashion") for file in CATALOG[name].editions[0].files]
    assert len(set(sums)) == 8


def test_an_unknown_name_is_answered_with_the_nearest_and_all():
    with pytest.raises(
        ValueError, match=r"^unknown data set 'mnits': did you mean 'mnist'\? known are mnist, fashion, shd"
    ):
        lookup("mnits", CATALOG)
    with pytest.raises(ValueError, match=r"^unknown data set '\?': known are mnist, "):
        lookup("?", CATALOG)


@pytest.mark.parametrize("name", [*CATALOG, None, "no such set"])
def test_only_the_coding_task_is_drawn_from_the_seed_and_has_times_for_labels(name):
    assert drawn_from_seed(name) is labels_are_times(name) is (name == "coding")


@pytest.mark.parametrize(
    ("name", "column", "microseconds", "sensor", "classes", "binning"),
    [
        ("nmnist-small", "t_us", 1, (34, 34), 10, (3.0, 100, 1)),
        ("dvs-sign", "t", 1_000_000, (128, 128), 15, (1000 / 30, 100, 4)),
    ],
)
def test_small_cameras_are_read_in_their_units(name, column, microseconds, sensor, classes, binning, tmp_path):
    """The published files are not here: what their entries say of them is written down a second time."""
    arrays = event_arrays(unit=column)
    files = {f"{part}.npz": write_npz(tmp_path / f"{part}.npz", **arrays) for part in ("train", "test")}
    entry = CATALOG[name]
    train, test = entry.source.read(Found(name, "", "", tmp_path, files, ""), silent)
    assert train.sensor == test.sensor == sensor
    first, end = arrays["offsets"][:2]
    times = arrays[column][first:end] * microseconds
    assert train.t[first:end].tolist() == [round(t) for t in times - times[0]]
    assert entry.classes == classes
    assert (entry.source.bin_ms, entry.source.steps, entry.source.downsample) == binning
    assert entry.source.polarity


def test_the_first_edition_is_the_usual_one():
    assert [usual_edition(name) for name in ("mnist", "shd", "dvs128")] == ["published"] * 3
    assert usual_edition("dvs-sign") == "simulated from video"
    assert [usual_edition(name) for name in ("coding", "none such", None)] == [None] * 3


def test_groups_are_named_where_readers_give_them():
    assert {name: entry.group_names for name, entry in CATALOG.items() if entry.group_names} == {
        "shd": "speakers",
        "dvs128": "users",
    }
