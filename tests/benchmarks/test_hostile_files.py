"""benchmarks/hostile_files.py: some hundred forged packed files, the same kinds as its 100,000."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from bitspike.deploy.packing.content import parse_packed

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(SCRIPTS))
    try:
        import hostile_files

        yield hostile_files
    finally:
        sys.path.remove(str(SCRIPTS))
        sys.modules.pop("hostile_files", None)


@pytest.fixture(scope="module")
def files(script):
    return script.seeds()


def ending(content):
    try:
        parse_packed(content)
    except ValueError as error:
        return "refused" if "\n" not in str(error) else "an error of several lines"
    return "loads"


def test_the_files_that_are_changed_are_valid(files):
    assert [ending(content) for content in files] == ["loads"] * len(files)


def test_forged_files_load_or_are_refused(script, files):
    chance = random.Random(0)
    ends = Counter(ending(script.mutated(files, chance)) for _ in range(400))
    assert ends["loads"] > 10  # else hardly any comes as far as its values
    assert ends["refused"] > 200


def test_each_way_to_change_a_file(script, files):
    """Each changes files, and with a checksum that fits some are refused for another reason."""
    for change in set(script.MUTATIONS):
        chance = random.Random(1)
        forged = [script.signed(change(chance.choice(files), chance, files)) for _ in range(15)]
        assert any(content not in files for content in forged), change.__name__
        assert {ending(content) for content in forged} <= {"loads", "refused"}


def test_a_signed_file_is_a_valid_one(script, files):
    damaged = bytearray(files[0])
    damaged[-1] ^= 1  # a spike of the vector
    assert ending(bytes(damaged)) == "refused"
    assert ending(script.signed(bytes(damaged))) == "loads"


def test_a_reading_is_watched(script, files, tmp_path):
    end, seconds, beyond = script.read(files[0], tmp_path / "file")
    assert (end, beyond) == ("loads", 0)
    assert 0 < seconds < script.SECONDS
    assert script.read(b"", tmp_path / "file")[0] == "ValueError"
