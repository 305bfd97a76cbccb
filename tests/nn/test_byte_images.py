"""Images of 0-255 given to a network as floats are warned of, once; whatever else may be meant is not."""

import copy
import warnings

import pytest
import torch

from bitspike import build
from bitspike.nn.byte_images import holds_bytes

SHAPE = (1, 8, 8)
SAYS = r"the input holds whole numbers from 0 to 255, .* divide it by 255 \(x / 255\)"


def bytes_as_floats(*shape):
    x = torch.randint(0, 256, shape).float()
    x.view(-1)[:2] = torch.tensor([0.0, 255.0])
    return x


@pytest.mark.parametrize(("notation", "shape"), [("2Conv3-72Dense4", SHAPE), ("64Dense4", SHAPE), ("64Dense4", (64,))])
@pytest.mark.parametrize("way", ["__call__", "observe", "run"])
def test_images_of_bytes_are_warned_of_once_a_network(notation, shape, way):
    net, x = build(notation, shape, steps=3), bytes_as_floats(2, *shape)
    with pytest.warns(UserWarning, match=SAYS) as seen:
        getattr(net, way)(x)
    assert len(seen) == 1
    assert seen[0].filename == __file__  # the line that gave the images, not one of ours
    net(x)  # a warning would be an error here
    copy.deepcopy(net)(x)
    with pytest.warns(UserWarning, match=SAYS):
        build(notation, shape, steps=3)(x)


def test_a_harmless_first_batch_does_not_blind_the_network():
    net = build("2Conv3-72Dense4", SHAPE, steps=3)
    net(torch.zeros(2, *SHAPE))
    net(torch.rand(2, *SHAPE))
    with pytest.warns(UserWarning, match="divide it by 255"):
        net(bytes_as_floats(2, *SHAPE))


def test_the_spikes_are_what_they_were():
    net, x = build("2Conv3-72Dense4", SHAPE, steps=3), bytes_as_floats(2, *SHAPE)
    with pytest.warns(UserWarning, match="divide it by 255"):
        spikes = net(x).spikes
    assert torch.equal(net(x).spikes, spikes)


LEGITIMATE = {
    "0 to 1": lambda: torch.rand(2, *SHAPE),
    "divided": lambda: bytes_as_floats(2, *SHAPE) / 255,
    "black and white": lambda: torch.randint(0, 2, (2, *SHAPE)).float(),
    "standardised": lambda: torch.randn(2, *SHAPE),
    "bytes about their mean": lambda: bytes_as_floats(2, *SHAPE) - 128,
    "currents": lambda: torch.rand(2, *SHAPE) * 255,
    "small whole currents": lambda: torch.randint(0, 100, (2, *SHAPE)).float(),
    "large whole currents": lambda: torch.randint(0, 1000, (2, *SHAPE)).float() + 256,
    "grey levels of 4 bits": lambda: torch.randint(0, 17, (2, *SHAPE)).float(),
    "a sequence of counts": lambda: bytes_as_floats(3, 2, *SHAPE),
    "no image": lambda: torch.zeros(0, *SHAPE),
}


@pytest.mark.parametrize("kind", LEGITIMATE)
def test_what_may_be_meant_is_not_warned_of(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build("2Conv3-72Dense4", SHAPE, steps=3)(LEGITIMATE[kind]())


def test_a_row_of_a_table_is_no_image():
    build("4Dense3", steps=3)(torch.tensor([[120.0, 80.0, 37.0, 65.0]]))


def test_nothing_is_looked_at_off_the_cpu():
    assert not holds_bytes(torch.empty(2, *SHAPE, device="meta"))  # a look would raise
    assert holds_bytes(bytes_as_floats(2, *SHAPE))
    assert holds_bytes(bytes_as_floats(2, *SHAPE).bfloat16())
    assert not holds_bytes(torch.full((2, *SHAPE), float("nan")))
