"""What C does around the products: it knows whole numbers, and rounds each of the last steps by itself."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.ops.current import c, reference
from bitspike.ops.current import torch as twin

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")


@pytest.mark.parametrize("size", [1, 7, 16, 17, (1 << 14) - 1, (1 << 14) + 1, 70_000])
@pytest.mark.parametrize(
    ("odd", "largest"),
    [
        (-3.0, 3.0),
        (200.0, 200.0),
        (0.5, None),
        (-1e-40, None),
        (float("nan"), None),
        (float("inf"), None),
        (2.0**22, None),
    ],
)
def test_one_number_anywhere_decides(size, odd, largest):
    for place in {0, size // 2, size - 1}:
        x = torch.ones(size)
        x[place] = odd
        assert c.largest_whole(x) == largest


@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.integers(1, 2**20))
def test_whole_numbers_are_those_that_pytorch_finds(values, terms):
    x = torch.tensor(values)
    assert twin.whole_numbers(x, terms, native=True) == twin.whole_numbers(x, terms)


def test_memory_in_any_order_is_looked_at():
    x = torch.ones(6, 8)[:, ::2]
    x[3, 3] = 0.25
    assert c.largest_whole(x) is None
    assert c.largest_whole(x.T[0]) == 1


@pytest.mark.parametrize("places", [(), (1, 1), (3, 5), (4, 4)])
@pytest.mark.parametrize("channels", [1, 5, 16, 33])
@pytest.mark.parametrize("parts", ["bias", "norm", "both"])
def test_the_last_steps_are_the_definitions(places, channels, parts):
    """Products that cancel against the offset: a fused multiply-add would leave other bits."""
    torch.manual_seed(0)
    current, scale = torch.randn(9, channels, *places), torch.randn(channels)
    bias = None if parts == "norm" else torch.randn(channels)
    norm = None if parts == "bias" else (scale, -scale * (current[4].flatten(1).mean(1) if places else current[4]))
    wanted = reference.finished(current, bias, norm)
    for native in (True, False):
        assert torch.equal(twin.finished(current.clone(), bias, norm, native=native), wanted)
