"""The cochlear model in C: the cells equal the definition bit for bit, the membrane to 1e-7 of its largest velocity."""

import os

import pytest
import torch

from bitspike.ops.cochlea import bushy_cells, c, hair_cells, membrane, run

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")
RATE = 24000.0


@pytest.mark.parametrize("samples", [480, 961, 1198])
def test_the_membrane(samples):
    sound = torch.randn(samples, dtype=torch.float64)
    ours, defined = c.FilteredSound(sound).velocity(slice(None)), membrane.velocity(sound)
    assert ours.shape == defined.shape
    largest = defined.abs().amax(1)
    assert ((ours - defined).abs().amax(1) / largest).max() < 1e-7


def test_some_units_of_the_membrane():
    filtered = c.FilteredSound(torch.randn(960, dtype=torch.float64))
    assert torch.equal(filtered.velocity(slice(None))[100:109], filtered.velocity(slice(100, 109)))


def test_no_sound_no_movement():
    assert c.FilteredSound(torch.zeros(960, dtype=torch.float64)).velocity(slice(3)).abs().max() == 0


@pytest.mark.parametrize("units", [1, 8, 13])
def test_hair_cells(units):
    moved = 100 * torch.randn(units, 700, dtype=torch.float64)
    assert torch.equal(c.hair_cells(moved, RATE), hair_cells.hair_cells(moved, RATE))


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
@pytest.mark.parametrize("most", [0.01, 0.2, 1.2])
def test_bushy_cells(most, seed):
    p = most * torch.rand(9, 1500, dtype=torch.float64)
    ours, defined = c.bushy_cells(p, RATE, seed, 5), bushy_cells.bushy_cells(p, RATE, seed, 5)
    assert defined.sum() > 0
    assert torch.equal(ours, defined)


def test_the_whole_model_gives_the_spikes_of_the_definition():
    sound = 0.5 * torch.randn(2398, dtype=torch.float64)
    ours, defined = run._fast(sound)(range(300, 420), 1), run._definition(sound)(range(300, 420), 1)
    assert defined.sum() > 50
    assert (ours != defined).sum() <= 2  # the membrane is rounded


def test_without_the_library_the_definition_runs(monkeypatch):
    monkeypatch.setattr(run, "library", lambda: None)
    sound = torch.randn(960, dtype=torch.float64)
    assert torch.equal(run.cochlea(sound)(range(4), 0), run._definition(sound)(range(4), 0))
