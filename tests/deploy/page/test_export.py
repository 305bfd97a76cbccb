"""The page is one file of known size that needs nothing else, and holds what it was given."""

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import bitspike
from bitspike.deploy import page
from bitspike.deploy.describe import describe
from bitspike.deploy.model import InputModel
from bitspike.deploy.packing.vector import SEED, draw
from bitspike.deploy.page.payload import payload
from bitspike.deploy.page.vectors import is_sequence, make_vector
from bitspike.deploy.runtime import plain_engine
from helpers import node


def small(**options):
    net = bitspike.build("6-5-3", generator=torch.Generator().manual_seed(0))
    return replace(describe(net), **options)


def written(model, tmp_path, **options) -> str:
    page.write_page(model, tmp_path / "page.html", **options)
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def network_of(text: str) -> dict:
    return json.loads(re.search(r'id="network">(.*?)</script>', text, re.S)[1])


def test_the_page_asks_for_nothing_else(tmp_path):
    text = written(small(), tmp_path)
    assert not re.search(r"https?:|@import|url\(|<link(?! rel=\"icon\" href=\"data:)|\bsrc=|\bfetch\(|XMLHttp", text)
    assert "default-src 'none'" in text
    assert "@@" not in text


def test_every_part_is_in_the_package_and_in_the_page(tmp_path):
    text = written(small(), tmp_path)
    folder = [part.name for part in page.export.resources.files("bitspike.deploy.page").iterdir()]
    scripts = sorted(name for name in folder if name.endswith(".js"))
    assert scripts == sorted(page.export.ENGINE + page.export.PARTS)
    for name in scripts:
        assert page.export.script(name) in text


@pytest.mark.skipif(node.PROGRAM is None, reason=node.WHY_NOT)
def test_scripts_lose_comments_and_indentation_and_nothing_else():
    normal = "(codes) => codes.map((code) => new Function(code).toString().replace(/\\/\\*[^]*?\\*\\/|\\s/g, ''))"
    for name in page.export.ENGINE + page.export.PARTS:
        whole, short = node.call("", normal, [node.source(name), page.export.script(name)])
        assert whole == short
        assert not re.search(r"^( |/\*)", page.export.script(name), re.MULTILINE)


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--", "@@CSS@@", "ü “a” & <b>"])
def test_names_from_outside_stay_text(tmp_path, text):
    model = small(class_names=(text, "b", "c"), metadata={"experiment": text, "command": text})
    page_text = written(model, tmp_path)
    assert page_text.count("<script") == 3
    assert f"<title>{html.escape(text)}</title>" in page_text
    network = network_of(page_text)
    assert network["classes"] == [text, "b", "c"]
    assert network["metadata"]["command"] == text


def test_the_title_is_given_or_found(tmp_path):
    assert "<title>a name</title>" in written(small(), tmp_path, title="a name")
    assert "<title>mnist/best</title>" in written(small(metadata={"experiment": "mnist/best"}), tmp_path)
    assert "<title>MNIST</title>" in written(small(metadata={"experiment": "mnist/best", "title": "MNIST"}), tmp_path)
    assert "<title>6-5-3</title>" in written(small(), tmp_path)


def test_classes_without_names_have_numbers(tmp_path):
    assert network_of(written(small(), tmp_path))["classes"] == ["0", "1", "2"]


def test_each_output_has_one_name(tmp_path):
    with pytest.raises(ValueError, match="class_names must be 3, one for each output, but are 2"):
        page.write_page(small(class_names=("a", "b")), tmp_path / "page.html")


def test_a_network_too_large_is_refused_and_nothing_is_written(tmp_path):
    model = describe(bitspike.build("700-3000-20"))
    with pytest.raises(ValueError, match=r"would have .* bytes, but at most 300,000 .*2,160,000 weights.*packed"):
        page.write_page(model, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_the_largest_network_that_fits_is_written(tmp_path):
    text = written(describe(bitspike.build("700-1670-20")), tmp_path)
    assert 280_000 < len(text.encode()) <= page.MOST_BYTES


def test_weights_are_one_bit_each():
    model = small()
    bits = node.from_bytes(payload(model)["layers"][0]["weight"])
    assert len(bits) == -(-30 // 8)
    unpacked = np.unpackbits(bits, count=30, bitorder="little").astype(bool)
    assert np.array_equal(unpacked.reshape(5, 6), model.layers[0].weight)


@pytest.mark.parametrize(
    ("notation", "shape", "options", "sequence"),
    [
        ("4Conv3-AP2-16Dense3", (1, 6, 6), {}, False),
        ("4Conv3-AP2-16Dense3", (1, 6, 6), {"input": InputModel("events")}, True),
        ("16-3", (16,), {"input": InputModel("image")}, False),
        ("16-3", (16,), {}, True),
    ],
)
def test_images_are_shown_and_events_are_sequences(notation, shape, options, sequence):
    assert is_sequence(describe(bitspike.build(notation, shape), **options)) is sequence


def test_the_test_vector_is_what_the_definition_gives():
    model = describe(bitspike.build("4Conv3-AP2-16Dense3", (1, 6, 6), theta=0.3, glances=5, steps=20))
    vector = make_vector(model)
    assert (vector.kind, vector.steps) == ("pixels", 10)
    x = draw(SEED, vector.density, "pixels", 36).reshape(1, 1, 6, 6)
    outputs = plain_engine.run(model, x, 10)
    assert vector.firing == 2
    assert all(np.array_equal(own, out.spikes.reshape(10, -1)) for own, out in zip(vector.spikes, outputs, strict=True))
    assert np.array_equal(vector.membrane, outputs[-1].membrane.reshape(10, 3))


def test_delayed_spikes_arrive_within_the_test_vector():
    model = describe(bitspike.build("6-5-3", delays=4))
    longest = sum(int(layer.delays.max()) for layer in model.layers)
    assert make_vector(model).steps == 8 + longest


@pytest.mark.skipif(node.PROGRAM is None, reason=node.WHY_NOT)
@pytest.mark.parametrize("changed", [False, True])
def test_the_check_finds_a_changed_weight(changed):
    model = describe(bitspike.build("6-5-3", theta=0.3, generator=torch.Generator().manual_seed(1)))
    network = payload(model)
    if changed:
        network["layers"][1]["weight"] = "A" + network["layers"][1]["weight"][1:]
    found = node.call(node.source("layer.js", "run.js"), "(network) => checkVector(network, network.vector)", network)
    assert found["steps"] == 8
    assert (found["equal"] == 8) is not changed
