"""The catalog's own consistency."""

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import pytest

from bitspike.data.catalog import CATALOG, drawn_from_seed, labels_are_times, lookup
from bitspike.data.entry import UNKNOWN


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
