"""Bad input of encoders: one line each that says where, what is required, what came, and what to do."""

import pytest
import torch

from bitspike import (
    latency,
    poisson,
)
from helpers.bad_input import NAN, case, require_clear_line

ENCODERS = [
    case(
        "pixels", ValueError, lambda: poisson(torch.tensor([0.0, 255.0]), 3),
        "poisson: rates | [0, 1] | 0..255 | divide images by 255",
    ),
    case("negative rate", ValueError, lambda: poisson(torch.tensor([-0.5]), 3), "poisson: rates | [0, 1] | -0.5..-0.5"),
    case("nan rate", ValueError, lambda: poisson(torch.tensor([NAN]), 3), "poisson: rates | [0, 1] | nan"),
    case("integer rates", TypeError, lambda: poisson(torch.tensor([1]), 3), "poisson: rates | floating point | int64"),
    case("poisson, 0 steps", ValueError, lambda: poisson(torch.rand(2), 0), "poisson: steps | >= 1 | is 0"),
    case("latency, 1.5 steps", ValueError, lambda: latency(torch.rand(2), 1.5), "latency: steps | whole | is 1.5"),
    case(
        "intensity of pixels", ValueError, lambda: latency(torch.tensor([255.0]), 3),
        "latency: intensity | [0, 1] | 255 | divide",
    ),
    case(
        "integer intensity", TypeError, lambda: latency(torch.tensor([1]), 3),
        "latency: intensity | floating point | int64",
    ),
    case(
        "rates a list", TypeError, lambda: poisson([0.5], 3),
        "poisson: rates | list",
    ),
    case(
        "silent below nan", ValueError, lambda: latency(torch.rand(2), 3, silent_below=NAN),
        "latency: silent_below | nan",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), ENCODERS)
def test_bad_input_is_one_clear_line(call, error, says):
    require_clear_line(call, error, says)
