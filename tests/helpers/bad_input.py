"""Cases of bad input, and the check that an error is one clear line."""

import math

import pytest

from bitspike import build

NAN, INF = math.nan, math.inf


def case(name, error, call, says):
    """A call, its error, and what the message says, in order: where | the rule | what came | what to do."""
    return pytest.param(call, error, [part.strip() for part in says.split("|")], id=name)


def require_clear_line(call, error, says):
    """The call raises the error with one line: it begins with the first part, and has all parts in their order."""
    with pytest.raises(error) as caught:
        call()
    message = caught.value.args[0]
    assert message.startswith(says[0]), message
    assert "\n" not in message
    position = 0
    for part in says:
        position = message.find(part, position)
        assert position >= 0, f"{part!r} is not in {message!r}, or not in this order"


def network(**kwargs):
    """A small network of two dense layers."""
    return build("6-5-2", steps=3, **kwargs)


def images(**kwargs):
    """A small network on images."""
    return build("2Conv3-AP2-18Dense3", (1, 8, 8), steps=3, **kwargs)
