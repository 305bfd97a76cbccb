"""The page on the packed format names every key, array and bound of the code, and no other."""

import json
import re
from dataclasses import fields
from pathlib import Path

from bitspike.deploy.model import InputModel
from bitspike.deploy.packing import limits
from bitspike.deploy.packing.arrays import KINDS
from bitspike.deploy.packing.content import packed_bytes
from helpers.models import tiny_model, tiny_vector

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "packed-format.md").read_text(encoding="utf-8")


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]


def test_the_page_has_every_key():
    content = packed_bytes(tiny_model(), tiny_vector())
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    document = json.loads(header["__metadata__"]["bitspike"])
    tables = re.findall(r"^\| key \|.*?(?=\n\n)", section("The structure"), re.MULTILINE | re.DOTALL)
    network, layer, inputs = (set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) for table in tables)
    assert network == document.keys()
    assert layer == {key for each in document["layers"] for key in each}
    assert inputs == {field.name for field in fields(InputModel)}
    assert all(f"`{key}`" in section("The check vector") for key in document["vector"])


def test_the_page_has_every_array():
    named = set(re.findall(r"`(i\.\w+|vector\.\w+)`", section("The arrays")))
    assert named == {f"i.{name}" for name in KINDS} | {"vector.spikes", "vector.membrane", "vector.scores"}


def test_the_page_has_every_bound():
    rows = re.findall(r"^\| .* \| (\d+) \| `(\w+)` \|$", section("Bounds"), re.MULTILINE)
    assert {name: int(number) for number, name in rows} == {
        name: value for name, value in vars(limits).items() if name.startswith("MOST_")
    }
