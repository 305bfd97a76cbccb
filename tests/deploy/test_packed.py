"""Packed files: what is written is read, bit for bit; bytes are pinned; anything else is refused with one line."""

import dataclasses
import hashlib
import json
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from safetensors import safe_open

import bitspike
from bitspike.deploy.describe import describe
from bitspike.deploy.model import AdaptationModel, InputModel, PoolModel
from bitspike.deploy.packed import read_packed, read_packed_file, save_packed, write_packed
from bitspike.deploy.packing import limits
from bitspike.deploy.packing.answers import make_vector
from bitspike.deploy.packing.content import packed_bytes, parse_packed
from bitspike.deploy.packing.fields import shown
from bitspike.deploy.packing.vector import draw
from helpers.models import assert_same, floats, tiny_model, tiny_vector, with_layer
from helpers.random_networks import networks

GOLDEN = Path(__file__).with_name("tiny_packed_1.hex")
SHA256 = "d262d2b1f263a6e2c976b5ba5e1ab65c208b3bcb0f81a5e201822d525be0fefc"


@given(networks())
def test_a_file_holds_the_network_bit_for_bit(net):
    model = describe(net)
    vector = make_vector(net, model)
    content = packed_bytes(model, vector)
    got = parse_packed(content)
    assert_same(got.model, model)
    assert_same(got.vector, vector)
    assert packed_bytes(*got) == content


@given(networks())
def test_the_vector_is_what_the_network_answers(net):
    model = describe(net)
    vector = make_vector(net, model)
    x = torch.from_numpy(vector.input(model.input_shape))
    with torch.no_grad():
        out = net(x, steps=vector.steps if vector.kind == "pixels" else None)
        scores = net.output_scores(out)
    if vector.spikes is not None:
        assert np.array_equal(out.spikes.flatten(1).numpy(), vector.spikes)
    assert np.array_equal(out.state.membrane.flatten().numpy(), vector.membrane)
    assert np.array_equal(scores.flatten().numpy(), vector.scores)


def test_golden_bytes():
    """The format of version 1: these bytes are read in all time to come, and written as long as it is version 1."""
    golden = bytes.fromhex(GOLDEN.read_text())
    assert hashlib.sha256(golden).hexdigest() == SHA256
    read = parse_packed(golden)
    assert_same(read.model, tiny_model())
    assert_same(read.vector, tiny_vector())
    assert packed_bytes(tiny_model(), tiny_vector()) == golden


def test_a_file_is_plain_safetensors(tmp_path):
    path = write_packed(tiny_model(), tmp_path / "net.safetensors", tiny_vector())
    with safe_open(path, "np") as file:
        assert list(file.metadata()) == ["bitspike"]
        assert json.loads(file.metadata()["bitspike"])["format"] == 1
        assert file.get_tensor("1.theta").tolist() == [1.0]
        # least significant bit first, a row in whole bytes: +--+, -+++ and +-, -+, ++
        assert file.get_tensor("0.weight").tolist() == [[0b1001], [0b1110]]
        assert file.get_tensor("1.weight").tolist() == [[0b01], [0b10], [0b11]]
        assert file.get_tensor("1.recurrent").tolist() == [[0b101], [0b100], [0b111]]
        assert file.get_tensor("0.delays").dtype == np.uint8
        assert file.get_tensor("vector.spikes").tolist() == [[0b101], [0], [0b011], [0], [0b010]]


def test_rows_of_more_than_a_byte():
    net = bitspike.build("11-2")
    net.layers[0].synapse.weight.data = torch.tensor([[1.0] + [-1.0] * 8 + [1.0, -1.0], [1.0] * 11])
    content = packed_bytes(describe(net))
    assert bytes([0b00000001, 0b010, 0b11111111, 0b111]) in content
    assert parse_packed(content).model.layers[0].weight[0].tolist() == [True] + [False] * 8 + [True, False]


def test_long_delays_take_two_bytes():
    model = with_layer(tiny_model(), 0, delays=np.array([300], np.uint16))
    assert_same(parse_packed(packed_bytes(model)).model.layers, model.layers)


def test_gains_are_a_byte_each_and_a_file_without_them_is_what_it_was():
    gains = np.array([255, 0], np.uint8)
    model = with_layer(tiny_model(), 1, gains=gains)
    content = packed_bytes(model)
    assert_same(parse_packed(content).model, model)
    header, _, rest = parts(content)
    entry = header["1.gains"]
    assert (entry["dtype"], entry["shape"]) == ("U8", [2])
    assert rest[slice(*entry["data_offsets"])] == b"\xff\0"
    assert "1.gains" not in parts(packed_bytes(tiny_model()))[0]


def test_the_drawn_input_is_specified():
    numbers, s = [], 1
    for _ in range(6):
        s = (1664525 * s + 1013904223) % 2**32
        numbers.append(s)
    assert numbers[:3] == [1015568748, 1586005467, 2165703038]
    pixels = [np.float32(n // 2**24) / np.float32(255) if n // 2**16 % 256 < 200 else 0 for n in numbers]
    spikes = [float(n // 2**16 % 256 < 200) for n in numbers]
    assert draw(1, 200, "pixels", 6).tolist() == [float(p) for p in pixels]
    assert draw(1, 200, "spikes", 6).tolist() == spikes
    assert set(spikes) == {0, 1}
    assert draw(1, 0, "spikes", 50).sum() == 0
    assert draw(1, 256, "spikes", 50).sum() == 50


def test_equal_networks_are_equal_files(tmp_path):
    files = []
    for i in range(2):
        net = bitspike.build("20-10-5", generator=torch.Generator().manual_seed(3))
        metadata = {"b": "2", "a": "1"} if i else {"a": "1", "b": "2"}
        files.append(save_packed(net, tmp_path / f"{i}.safetensors", metadata=metadata).read_bytes())
    assert files[0] == files[1]


def test_only_a_packed_file_is_written_over(tmp_path):
    net, path = bitspike.build("20-10-5"), tmp_path / "net.safetensors"
    path.touch()  # as tempfile leaves it
    first = save_packed(net, path).read_bytes()
    assert save_packed(net, path).read_bytes() == first
    for content in (b"mine", first[:-1]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"net\.safetensors exists and is no packed network; choose another name"):
            save_packed(net, path)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_save_packed_leaves_the_network_as_it_was(tmp_path):
    net = bitspike.build("20-10-5", delays=3, dropout=0.5, backend="reference").train()
    state = torch.get_rng_state()
    with net.record() as recorded:
        save_packed(net, str(tmp_path / "net.safetensors"), class_names=list("abcde"))
    assert not recorded
    assert net.training
    assert net.layers[0].lif.backend == "reference"
    assert net.layers[0].delay.state is None
    assert torch.equal(torch.get_rng_state(), state)


def test_a_network_of_the_paper_is_a_few_kilobytes(tmp_path):
    net = bitspike.build("16Conv5-AP2-64Conv5-AP2-1024Dense10", (1, 28, 28), norm="shared", glances=9, steps=90)
    said = {"input": InputModel("image"), "class_names": ["a name of a class"] * 10, "metadata": {"command": "x" * 100}}
    assert save_packed(net, tmp_path / "net.safetensors", **said).stat().st_size < 8000


# Files that are refused.


def parts(content):
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["bitspike"]), content[8 + length :]


def forged(change=lambda header, document: None, *, model=None, vector=None, data=None):
    """A file with a changed header, structure or arrays, and a checksum that fits."""
    header, document, rest = parts(packed_bytes(model or tiny_model(), vector))
    document["sha256"] = "0" * 64
    change(header, document)
    header["__metadata__"] = header.get("__metadata__", {}) and {
        "bitspike": json.dumps(document, separators=(",", ":"))
    }
    raw = json.dumps(header, separators=(",", ":")).encode()
    content = struct.pack("<Q", len(raw)) + raw + (rest if data is None else data(rest, header))
    place = content.index(b"0" * 64)
    return content[:place] + hashlib.sha256(content).hexdigest().encode() + content[place + 64 :]


def test_a_forged_file_without_a_change_is_valid():
    assert_same(parse_packed(forged()).model.layers, tiny_model().layers)


def setting(*path, to):
    def change(header, document):
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = to

    return change


def removing(name):
    return lambda header, document: document.pop(name)


def in_header(*path, to):
    def change(header, document):
        holder = header
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = to

    return change


def adding(name, like):
    """An array at the end of the file, of the type and shape of another."""

    def change(header, document):
        end = max(entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__")
        first, last = header[like]["data_offsets"]
        header[name] = header[like] | {"data_offsets": [end, end + last - first]}

    return change


def value(name, number, kind="<f"):
    """Bytes behind the header with another first value of an array."""

    def data(rest, header):
        place, new = header[name]["data_offsets"][0], struct.pack(kind, number)
        return rest[:place] + new + rest[place + len(new) :]

    return data


NAN = float("nan")
STRUCTURES = [
    (setting("format", to=2), "format 2"),
    (setting("format", to=True), "format True"),
    (removing("format"), "format"),
    (setting("steps", to=0), "steps"),
    (setting("steps", to=limits.MOST_STEPS + 1), "steps"),
    (setting("steps", to=True), "steps"),
    (setting("steps", to=6.0), "steps"),
    (setting("steps", to=10**40), "steps"),
    (setting("glances", to=5), "glances"),
    (setting("glances", to=2), "glances"),
    (setting("readout", to="votes"), "readout"),
    (setting("readout", to=["spikes"]), "readout"),
    (setting("readout", to="membrane"), "layer 2 must not have"),
    (setting("notation", to="a\x1b[2Jb"), "notation"),
    (setting("notation", to="x" * 5000), "notation"),
    (setting("input_shape", to=[]), "input_shape"),
    (setting("input_shape", to=[1, 3]), "layer 1"),
    (setting("input_shape", to=[1, -3, 4]), "input_shape"),
    (setting("input_shape", to=[2**21, 2**21, 1]), "input_shape"),
    (setting("input_shape", to=[1, 9, 9]), "layer"),
    (setting("layers", to=[]), "no layers"),
    (setting("layers", to=[{"kind": "dense", "outputs": 1}] * 65), "layers"),
    (setting("layers", 0, "kind", to="dense"), "layer 1"),
    (setting("layers", 1, "kind", to="conv"), "layer 2"),
    (setting("layers", 0, "kernel", to=99), "kernel"),
    (setting("layers", 0, "stride", to=0), "stride"),
    (setting("layers", 0, "padding", to=2), "padding"),
    (setting("layers", 0, "outputs", to=3), "layer 1"),
    (setting("layers", 0, "outputs", to=2**30), "outputs"),
    (setting("layers", 0, "pools", to=[["average", 3, 1]]), "pool of 3"),
    (setting("layers", 0, "pools", to=[["mean", 1, 1]]), "pool"),
    (setting("layers", 0, "pools", to=[["average", 1]]), "pool"),
    (setting("layers", 0, "pools", to=[["average", 1, 1]] * 5), "pools"),
    (setting("layers", 0, "pools", to=[[{}, 1, 1]]), "pool"),
    (setting("layers", 0, "pools", to=[["max", 65, 1]]), r"the side of a pool must be a whole number in 1\.\.64"),
    (setting("layers", 0, "stride", to=4097), r"stride must be a whole number in 1\.\.4096"),
    (setting("layers", 1, "adaptation", to=[0.5]), "adaptation"),
    (setting("layers", 1, "adaptation", to=[1.5, 1]), "rho"),
    (setting("layers", 1, "adaptation", to=[0.5, 1e39]), "strength"),
    (setting("layers", 1, "adaptation", to=[0.5, NAN]), "NaN"),
    (setting("layers", 1, "recurrent_scale", to=-1), "recurrent_scale"),
    (setting("layers", 0, "recurrent_scale", to=0.5), "layer 1 has a recurrent_scale"),
    (setting("layers", 0, "groups", to=2), "groups"),
    (setting("extra", to=1), "extra"),
    (setting("class_names", to=["a"]), "class names"),
    (setting("class_names", to=["a", "b", "c" * 300]), "class name"),
    (setting("class_names", to=["a", "b", "\ud800"]), "class name"),
    (setting("metadata", to={"a": 1}), "metadata"),
    (setting("metadata", to={str(i): "" for i in range(65)}), "metadata"),
    (setting("input", "kind", to="sound"), "kind"),
    (setting("input", "clip", to=256), "clip"),
    (setting("input", "sensor", to=[2**20, 2**20]), "sensor"),
    (setting("input", "polarity", to=0), "polarity"),
    (setting("input", "other", to=0), "other"),
    (setting("vector", to={"seed": 1}), "vector"),
    (setting("vector", to={"seed": 1, "density": 1, "kind": "spikes", "steps": 5}), "vector."),
    (lambda header, document: header.pop("1.theta"), "gap|end at"),
    (in_header("0.weight", "dtype", to="F64"), "dtype"),
    (in_header("0.weight", "dtype", to="U16"), "bytes"),
    (in_header("0.weight", "shape", to=[1, 2]), "layer 1: weight"),
    (in_header("0.weight", "shape", to=[2**60, 2**60]), "weight"),
    (in_header("0.weight", "shape", to=[]), "weight"),
    (in_header("0.weight", "data_offsets", to=[0, 2]), "overlap|gap"),
    (in_header("0.weight", "data_offsets", to=[10**9, 10**9 + 2]), "weight"),
    (in_header("0.weight", "more", to=1), "more"),
    (in_header("0.weight", to=[1]), "weight"),
    (in_header("9.weight", to={"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}), "overlap|gap"),
]
ARRAYS = [
    ("0.weight", 0b11001, "<B", "layer 1: weight has a bit"),
    ("1.recurrent", 0b1101, "<B", "layer 2: recurrent has a bit"),
    ("vector.spikes", 0b1101, "<B", "vector.spikes has a bit"),
    ("1.beta", 1.5, "<f", r"layer 2: beta must be in \[0, 1\]"),
    ("1.beta", NAN, "<f", "layer 2: beta"),
    ("1.theta", 0.0, "<f", "layer 2: theta must be finite and > 0"),
    ("1.theta", float("inf"), "<f", "layer 2: theta"),
    ("0.bias", NAN, "<f", "layer 1: bias"),
    ("0.scale", float("inf"), "<f", "layer 1: scale"),
    ("0.offset", float("-inf"), "<f", "layer 1: offset"),
    ("vector.membrane", NAN, "<f", "membrane"),
    ("vector.scores", NAN, "<f", "scores"),
]


def refused(content, says):
    with pytest.raises(ValueError, match=says) as caught:
        parse_packed(content, "net.safetensors")
    message = str(caught.value)
    assert message.startswith("net.safetensors is not a packed network, or is damaged: ")
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize(("change", "says"), STRUCTURES)
def test_a_structure_that_is_not_allowed(change, says):
    refused(forged(change), says)


@pytest.mark.parametrize(("name", "number", "kind", "says"), ARRAYS)
def test_values_that_are_not_allowed(name, number, kind, says):
    refused(forged(vector=tiny_vector(), data=value(name, number, kind)), says)


DENSE, CONV = {"kind": "dense"}, {"kind": "conv"}
BOUNDS = [
    ([1, 1024, 1024], [CONV | {"outputs": 4, "kernel": 1}] * 2 + [DENSE | {"outputs": 1}], {}, "8388609 neurons"),
    ([2**22], [DENSE | {"outputs": 2**16}], {}, "274877906944 additions"),
    ([1, 1024, 1024], [CONV | {"outputs": 8, "kernel": 1}], {}, "product"),
    ([2**20, 2, 2], [CONV | {"outputs": 1, "kernel": 4, "padding": 3}], {}, "16777216 inputs a neuron"),
    ([1], [DENSE | {"outputs": 2**16 + 1}], {}, "65537 classes"),
    ([1], [DENSE | {"outputs": 2**16}], {"steps": 2**16}, "65536 classes in 65536 steps"),
    (
        [1, 512, 512],
        [CONV | {"outputs": 1, "kernel": 1, "pools": [["average", 64, 1], ["average", 64, 1], ["average", 2, 1]]}],
        {},
        "mean of more than",
    ),
    ([8192], [DENSE | {"outputs": 1}], {"input": {"steps": 2**16}}, "more than 268435456 values"),
    (  # few sums, if those of windows that overlap were kept; the runtime makes them again, 256**4 for each neuron
        [1, 64, 64],
        [CONV | {"outputs": 1, "kernel": 1, "pools": [["max", 16, 1]] * 4}],
        {},
        "68719476736 additions",
    ),
]


@pytest.mark.parametrize(("shape", "layers", "more", "says"), BOUNDS)
def test_a_network_beyond_its_bounds(shape, layers, more, says):
    """Each is refused by its structure alone: there is no array of that size."""

    def change(header, document):
        document.update({"class_names": [], "input": {}} | {"input_shape": shape, "layers": layers} | more)

    refused(forged(change), says)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("1.theta", "U8"), ("1.theta", "U16"), ("0.delays", "F32"), ("0.gains", "U16"), ("0.gains", "F32")],
)
def test_an_array_of_another_type(name, dtype):
    model = with_layer(tiny_model(), 0, gains=np.array([3], np.uint8))

    def change(header, document):
        header[name]["dtype"], place = dtype, 0
        for entry in (value for key, value in header.items() if key != "__metadata__"):
            size = int(np.prod(entry["shape"])) * {"U8": 1, "U16": 2, "F32": 4}[entry["dtype"]]
            entry["data_offsets"], place = [place, place + size], place + size

    def data(rest, header):
        return bytes(max(entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"))

    refused(forged(change, model=model, data=data), f"{name.partition('.')[2]} must not be {dtype}")


def test_gains_of_another_shape():
    model = with_layer(tiny_model(), 1, gains=np.array([3, 4], np.uint8))
    refused(forged(in_header("1.gains", "shape", to=[1, 2]), model=model), r"layer 2: gains must not be U8 \[1, 2\]")
    without = forged(adding("1.gains", "0.delays"), data=lambda rest, _: rest + b"\1")  # one, but two arrive
    refused(without, r"layer 2: gains must not be U8 \[1\]")


def test_sums_of_gains_stay_exact(monkeypatch):
    gains = np.array([3, 4], np.uint8)
    monkeypatch.setattr(limits, "MOST_GAINED", 8)
    packed_bytes(with_layer(tiny_model(), 1, gains=gains))
    content = packed_bytes(with_layer(tiny_model(), 1, gains=gains), tiny_vector())
    monkeypatch.setattr(limits, "MOST_GAINED", 7)
    refused(content, "layer 2: with gains of up to 4 its sums reach 8, more than 7")
    packed_bytes(tiny_model())  # without gains nothing is asked
    first = with_layer(tiny_model(), 0, gains=np.array([2], np.uint8))
    with pytest.raises(ValueError, match="layer 1: with gains of up to 2 its sums reach 32"):  # 4 taps, pools of 4
        packed_bytes(first)


def test_an_unknown_array():
    longer = forged(adding("1.scale", "1.theta"), data=lambda rest, _: rest + rest[:4])
    refused(longer, "layer 2: scale")
    refused(forged(adding("7.theta", "1.theta"), data=lambda rest, _: rest + rest[:4]), "unknown array '7.theta'")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "0 bytes"),
        (b"1234567", "7 bytes"),
        (struct.pack("<Q", 2**63) + b"{}", "header"),
        (struct.pack("<Q", 100) + b"{}", "header"),
        (struct.pack("<Q", 2) + b"{}", "__metadata__"),
        (struct.pack("<Q", 2) + b"[]", "object"),
        (struct.pack("<Q", 2) + b"\xff\xff", "UTF-8"),
        (struct.pack("<Q", 2000) + b"[" * 2000, "JSON"),
        (struct.pack("<Q", 120_001) + b"[" + b"[]," * 40_000, "values"),
        (struct.pack("<Q", 5000) + b"9" * 5000, "JSON"),
        (struct.pack("<Q", 13) + b'{"a":1,"a":1}', "twice"),
        (struct.pack("<Q", 30) + b'{"__metadata__":{"bitspike":1}}'[:30], "JSON"),
        (struct.pack("<Q", 31) + b'{"__metadata__":{"bitspike":1}}', "checksum"),
    ],
)
def test_what_is_no_packed_file(content, says):
    refused(content, says)


def test_every_damaged_byte_is_noticed():
    content = packed_bytes(tiny_model(), tiny_vector())
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(ValueError, match="damaged"):
            parse_packed(bytes(damaged))
    for size in range(0, len(content), 7):
        with pytest.raises(ValueError, match="damaged"):
            parse_packed(content[:size])
    refused(content + b"x", "bytes|end at")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (tiny_model(steps=np.int64(6)), "steps"),
        (tiny_model(class_names=("a",)), "class names"),
        (tiny_model(metadata={"a": "line\nline"}), "metadata"),
        (tiny_model(readout="membrane"), "layer 2 must not have"),
        (tiny_model(layers=()), "no layers"),
        (with_layer(tiny_model(), 1, theta=None), "layer 2 has no theta"),
        (with_layer(tiny_model(), 1, theta=floats(1, 2)), "layer 2: theta must be float32"),
        (with_layer(tiny_model(), 1, theta=np.ones(1)), "layer 2: theta must be float32"),
        (with_layer(tiny_model(), 1, weight=np.ones((3, 3), bool)), "layer 2: weight"),
        (with_layer(tiny_model(), 1, weight=np.ones((3, 2))), "layer 2: weight"),
        (with_layer(tiny_model(), 1, offset=floats(1, 2, 3)), "scale and offset"),
        (with_layer(tiny_model(), 1, pools=(PoolModel("max", 1, 1),)), "pools"),
        (with_layer(tiny_model(), 1, gains=np.ones(3, np.uint8)), "layer 2: gains must be uint8"),
        (with_layer(tiny_model(), 1, gains=np.ones(2, np.uint16)), "layer 2: gains must be uint8"),
        (with_layer(tiny_model(), 0, output=(2, 1, 2)), "layer 1 must go from"),
        (with_layer(tiny_model(), 0, recurrent=np.ones((2, 2), bool)), "layer 1 must not have recurrent"),
        (with_layer(tiny_model(), 0, adaptation=AdaptationModel(2.0, 1.0)), "rho"),
        (
            with_layer(tiny_model(input_shape=(1, 3, 4), glances=5, steps=10), 1, beta=floats(0.5)),
            "delays need sequences",
        ),
    ],
)
def test_a_model_that_is_not_valid_is_not_written(model, says, tmp_path):
    with pytest.raises(ValueError, match=says) as caught:
        write_packed(model, tmp_path / "net.safetensors")
    assert str(caught.value).startswith("write_packed: the network cannot be packed: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"spikes": None},
        {"steps": 4},
        {"membrane": floats(1, 2)},
        {"scores": floats(1, 2, NAN)},
        {"kind": "pixels"},
        {"kind": "noise"},
        {"seed": -1},
        {"density": 257},
        {"steps": limits.MOST_VECTOR_STEPS + 1},
    ],
)
def test_a_vector_that_does_not_fit_is_not_written(change):
    with pytest.raises(ValueError, match=r"vector|spikes|kind"):
        packed_bytes(tiny_model(), tiny_vector(**change))


def test_a_vector_is_no_larger_than_its_bound(monkeypatch):
    monkeypatch.setattr(limits, "MOST_VECTOR_VALUES", 59)  # five steps of 12 values are 60
    with pytest.raises(ValueError, match="more than 59 values"):
        packed_bytes(tiny_model(), tiny_vector())
    net = bitspike.build("12-3", delays=4)
    assert make_vector(net, describe(net)).steps == 4


def test_delays_hold_no_more_than_their_bound():
    net = bitspike.build("8Conv1-MP1-8192Dense2", (1, 32, 32), delays=[0, 2])
    model = with_layer(describe(net), 1, delays=np.full(8192, 65535, np.uint16))
    with pytest.raises(ValueError, match="delays hold"):
        packed_bytes(model)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_packed(tmp_path / "missing")
    with pytest.raises(OSError, match="not a file"):
        read_packed(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="not a file"):
            read_packed(tmp_path / "pipe")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(limits.MOST_FILE_BYTES + 1)  # takes no space on the disk
    with pytest.raises(ValueError, match="more than"):
        read_packed_file(tmp_path / "large")


def test_reading_takes_no_more_memory_than_the_file_and_its_bits(tmp_path):
    path = save_packed(bitspike.build("900-800-10"), tmp_path / "net.safetensors")
    size = path.stat().st_size
    read_packed(path)
    tracemalloc.start()
    model = read_packed(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * size + model.weights + 2**18


def test_declared_sizes_cost_nothing():
    """A header that declares gigabytes is refused before they are asked for."""

    def huge(header, document):
        document["input_shape"], document["layers"][0]["kernel"] = [4, 1024, 1024], 1024
        header["0.weight"] |= {"shape": [2, 2**19], "data_offsets": [0, 2**20]}

    content = forged(huge)
    tracemalloc.start()
    refused(content, "overlap|gap")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**18


def test_the_answer_of_a_membrane_is_its_scores(tmp_path):
    net = bitspike.build("9-7-3", readout="membrane", delays=[2, 3])
    file = read_packed_file(save_packed(net, tmp_path / "net.safetensors"))
    assert file.vector.spikes is None
    assert dataclasses.asdict(file.model.layers[-1])["theta"] is None
    assert file.vector.steps == 8 + sum(int(layer.delays.max()) for layer in file.model.layers)


def test_an_error_is_short_however_large_the_value_is():
    value = 10**20
    for _ in range(5):
        value = [value] * 6
    assert len(shown(value)) < 120
