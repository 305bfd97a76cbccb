"""Bad input of losses: one line each that says where, what is required, what came, and what to do."""

import pytest
import torch

from bitspike import (
    count_loss,
    trace_loss,
)
from helpers.bad_input import case, require_clear_line

SPIKES, LABELS = torch.zeros(10, 2, 3), torch.tensor([0, 2])


LOSSES = [
    case(
        "spikes of 2 dimensions", ValueError, lambda: count_loss(SPIKES[0], LABELS),
        "count_loss: spikes | [T, B, classes] | [2, 3]",
    ),
    case(
        "labels of another number", ValueError, lambda: count_loss(SPIKES, LABELS[:1]),
        "count_loss: labels | [2] | [1]",
    ),
    case(
        "float labels", ValueError, lambda: count_loss(SPIKES, LABELS.float()),
        "count_loss: labels | whole numbers | float32",
    ),
    case(
        "one-hot labels", ValueError, lambda: count_loss(SPIKES, torch.eye(3)[:2]),
        "count_loss: labels | [2] | [2, 3]",
    ),
    case("label 3 of 3", ValueError, lambda: count_loss(SPIKES, LABELS + 1), "count_loss: labels | 0..2 | 1..3"),
    case("label -1", ValueError, lambda: count_loss(SPIKES, LABELS - 1), "count_loss: labels | 0..2 | -1..1"),
    case(
        "rates swapped", ValueError, lambda: count_loss(SPIKES, LABELS, 0.2, 0.8),
        "count_loss: rates | incorrect < correct | 0.8 and 0.2",
    ),
    case("rate above 1", ValueError, lambda: count_loss(SPIKES, LABELS, 1.2), "count_loss: rates | <= 1 | 0.2 and 1.2"),
    case(
        "rate below 0", ValueError, lambda: count_loss(SPIKES, LABELS, 0.8, -0.1),
        "count_loss: rates | 0 <= | -0.1 and 0.8",
    ),
    case(
        "integer spikes", TypeError, lambda: count_loss(SPIKES.long(), LABELS),
        "count_loss: spikes | int64",
    ),
    case(
        "no steps to count", ValueError, lambda: count_loss(SPIKES[:0], LABELS),
        "count_loss: spikes | [0, 2, 3]",
    ),
    case(
        "labels a list", TypeError, lambda: count_loss(SPIKES, [0, 2]),
        "count_loss: labels | list",
    ),
    case(
        "target of another time", ValueError, lambda: trace_loss(torch.ones(4, 2), torch.ones(5)),
        "trace_loss: target | 4 time steps | [5]",
    ),
    case(
        "target of another width", ValueError, lambda: trace_loss(torch.ones(4, 2), torch.ones(4, 3)),
        "trace_loss: target | [4, 3] | [4, 2]",
    ),
    case(
        "target of more dimensions", ValueError, lambda: trace_loss(torch.ones(4, 4), torch.ones(4, 4, 4)),
        "trace_loss: target | [4, 4, 4] | [4, 4]",
    ),
    case(
        "target of fewer dimensions", ValueError, lambda: trace_loss(torch.ones(4, 4, 4), torch.ones(4, 4)),
        "trace_loss: target | [4, 4] | [4, 4, 4]",
    ),
    case(
        "target wider than the membrane", ValueError, lambda: trace_loss(torch.ones(4, 1), torch.ones(4, 5)),
        "trace_loss: target | [4, 5] | [4, 1]",
    ),
    case(
        "target a list", TypeError, lambda: trace_loss(torch.ones(2), [1.0, 2.0]),
        "trace_loss: target | tensor | list",
    ),
    case(
        "membrane that was not kept", TypeError, lambda: trace_loss(None, torch.ones(4)),
        "trace_loss: membrane | None | keep_membrane",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), LOSSES)
def test_bad_input_is_one_clear_line(call, error, says):
    require_clear_line(call, error, says)
