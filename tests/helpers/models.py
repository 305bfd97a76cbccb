"""Models of networks: their comparison, and a tiny one that is written out by hand."""

import dataclasses

import numpy as np

from bitspike.deploy.model import AdaptationModel, InputModel, LayerModel, NetworkModel, PoolModel
from bitspike.deploy.packing.vector import CheckVector


def assert_same(got, wanted, where="model"):
    """Both are equal in every field, and arrays in type, shape and bits."""
    assert type(got) is type(wanted), where
    if dataclasses.is_dataclass(got):
        for field in dataclasses.fields(got):
            assert_same(getattr(got, field.name), getattr(wanted, field.name), f"{where}.{field.name}")
    elif isinstance(got, np.ndarray):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), where
        assert got.tobytes() == wanted.tobytes(), where
    elif isinstance(got, tuple):
        assert len(got) == len(wanted), where
        for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    else:
        assert got == wanted, where


def floats(*values):
    return np.array(values, np.float32)


def signs(*rows):
    """Rows of + and - as bits."""
    return np.array([[sign == "+" for sign in row] for row in rows])


def tiny_model(**changes):
    """A network of two layers with a part of every kind that fits beside the others."""
    first = LayerModel(
        kind="conv",
        input=(1, 3, 4),
        output=(2, 1, 1),
        weight=signs("+--+", "-+++").reshape(2, 1, 2, 2),
        beta=floats(0.5),
        theta=floats(0.75, 1.5),
        stride=2,
        padding=1,
        pools=(PoolModel("average", 2, 2), PoolModel("max", 1, 1)),
        bias=floats(0.25, -0.5),
        scale=floats(0.5, -1.25),
        offset=floats(0.0, 0.125),
        delays=np.array([3], np.uint16),
    )
    last = LayerModel(
        kind="dense",
        input=(2, 1, 1),
        output=(3, 1, 1),
        weight=signs("+-", "-+", "++"),
        beta=floats(0.5, 0.25, 0.75),
        theta=floats(1.0),
        recurrent=signs("+-+", "--+", "+++"),
        recurrent_scale=0.5,
        adaptation=AdaptationModel(0.9, 1.5),
    )
    model = NetworkModel(
        notation="2Conv2p1s2-AP2-MP1-2Dense3",
        input_shape=(1, 3, 4),
        steps=6,
        readout="spikes",
        layers=(first, last),
        input=InputModel("events", bin_us=1000, steps=6, polarity=False, sensor=(3, 4)),
        class_names=("zéro", "one", "two"),
        metadata={"accuracy": "0.5", "about": 'written by hand: "+" and "-"'},
    )
    return dataclasses.replace(model, **changes)


def tiny_vector(**changes):
    """A vector that fits `tiny_model`; its answer is made up."""
    spikes = signs("+-+", "---", "++-", "---", "-+-")
    vector = CheckVector(7, 100, "spikes", 5, spikes, floats(0.5, -1.0, 2.0), floats(0.25, 0.5, 0.125))
    return dataclasses.replace(vector, **changes)


def with_layer(model, i, **changes):
    """The model with other fields of one layer."""
    layers = list(model.layers)
    layers[i] = dataclasses.replace(layers[i], **changes)
    return dataclasses.replace(model, layers=tuple(layers))
