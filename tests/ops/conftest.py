"""Memory that shows what a kernel did not write, and layers that must run in C."""

import pytest
import torch

from helpers.layers import however_busy, in_c  # noqa: F401 (fixtures)


@pytest.fixture
def poisoned():
    """New memory is NaN, or the largest whole number: what a kernel does not write shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
