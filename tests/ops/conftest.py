"""Memory that shows what a kernel did not write."""

import pytest
import torch


@pytest.fixture
def poisoned():
    """New memory is NaN, or the largest whole number: what a kernel does not write shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
