"""The hair cells, compared with the authors' own code, and what holds for any movement."""

import numpy as np
import pytest
import torch

from bitspike.ops.cochlea.hair_cells import HAIR_CELLS, hair_cells
from bitspike.ops.cochlea.membrane import velocity
from helpers.lauscher_values import PROBABILITY, UNITS, sound

RATE = 24000.0


def test_the_probability_is_lauschers():
    from bitspike.data.speech.cochlea import prepared

    moved = velocity(prepared(torch.from_numpy(sound(961)), 48000)[:961])[UNITS]
    np.testing.assert_allclose(hair_cells(moved, RATE)[:, 40::80].numpy(), PROBABILITY, rtol=1e-9)


def test_at_rest_nothing_changes():
    out = hair_cells(torch.zeros(2, 200, dtype=torch.float64), RATE)
    rest = HAIR_CELLS.at_rest()[1] * HAIR_CELLS.h / RATE
    torch.testing.assert_close(out, torch.full_like(out, rest), rtol=1e-12, atol=0)


def test_a_movement_to_the_other_side_stops_the_release():
    out = hair_cells(torch.full((1, 2400), -6.0, dtype=torch.float64), RATE)  # below -A
    assert (out.diff() <= 0).all()
    assert out[0, -1] < 1e-6


def test_the_cell_adapts_to_a_lasting_movement():
    out = hair_cells(torch.full((1, 4800), 200.0, dtype=torch.float64), RATE)[0]
    assert out.argmax() < 50
    assert out[-1] < 0.2 * out.max()


def test_a_pool_above_its_size_is_not_filled():
    from dataclasses import replace

    out = hair_cells(torch.full((1, 4), -9.0, dtype=torch.float64), RATE, replace(HAIR_CELLS, m=1e-9))
    assert (out >= 0).all()


def test_it_is_lauschers_where_that_is_installed():
    pytest.importorskip("lauscher", reason="lauscher is not installed: pip install lauscher")
    from lauscher.transformations import HairCell

    moved = 100 * torch.randn(3, 500, dtype=torch.float64)
    theirs = np.array([HairCell()._meddis(row, RATE) for row in moved.numpy()])
    assert np.array_equal(hair_cells(moved, RATE).numpy(), theirs)
