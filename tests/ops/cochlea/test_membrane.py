"""The basilar membrane, compared with the authors' own code and with the equations that it solves."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from bitspike.data.speech.cochlea import prepared
from bitspike.ops.cochlea import membrane
from bitspike.ops.cochlea.membrane import MEMBRANE, Membrane, frequencies, transfer, velocity
from helpers.lauscher_values import PREPARED, UNITS, VELOCITY, sound


def faded(samples=961):
    return prepared(torch.from_numpy(sound(samples)), 48000)[:samples]


def test_the_sound_is_prepared_as_by_lauscher():
    np.testing.assert_allclose(faded()[7::120].numpy(), PREPARED, rtol=1e-10, atol=1e-12)


def test_the_velocity_is_lauschers():
    moved = velocity(faded())[UNITS, 40::80]
    np.testing.assert_allclose(moved.numpy(), VELOCITY, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("place", [0.7, 1.9, 3.5])
def test_the_phase_is_the_integral_of_the_wave_number(place):
    omega = 2 * np.pi * 800.0

    def g(x, part):
        value = membrane._wavenumber(torch.tensor(omega).double(), torch.tensor(x).double(), MEMBRANE)
        return getattr(value, part).item()

    integral = sum(quad(g, 0, place, args=(part,), limit=500)[0] * unit for part, unit in (("real", 1), ("imag", 1j)))
    expected = 2 * complex(g(0.0, "real"), g(0.0, "imag")) / MEMBRANE.softening + integral
    phase = membrane._phase(torch.tensor(omega).double(), torch.tensor(place).double(), MEMBRANE)
    assert phase.item() == pytest.approx(expected, rel=1e-6)


def test_each_place_has_its_frequency_from_high_to_low():
    omega = frequencies(4800)
    best = omega[transfer(omega, MEMBRANE.places()[:, None][::50]).abs().argmax(1)] / (2 * np.pi)
    assert (best.diff() < 0).all()
    stiff = MEMBRANE.stiffness * torch.exp(-MEMBRANE.softening * MEMBRANE.places()[::50]) - MEMBRANE.slack
    resonance = (stiff / MEMBRANE.mass).sqrt() / (2 * np.pi)
    assert ((best / resonance)[1:] < 1).all()
    assert ((best / resonance)[1:] > 0.8).all()


def test_the_membrane_is_linear_and_an_echo_comes_later():
    one, two = torch.randn(2, 960, dtype=torch.float64)
    units = slice(300, 304)
    both = velocity(2 * one - two, units=units)
    torch.testing.assert_close(both, 2 * velocity(one, units=units) - velocity(two, units=units), rtol=0, atol=1e-8)


def test_some_units_are_those_of_all():
    x = torch.randn(960, dtype=torch.float64)
    model = Membrane(units=12)
    assert torch.equal(velocity(x, model, slice(4, 7)), velocity(x, model)[4:7])


def test_it_is_lauschers_where_that_is_installed():
    pytest.importorskip("lauscher", reason="lauscher is not installed: pip install lauscher")
    from lauscher.audiowaves import MonoAudioWave
    from lauscher.transformations import BasilarMembrane

    wave = faded(4800)
    theirs = BasilarMembrane(channels=70)(MonoAudioWave(wave.numpy(), 48000)).channels
    ours = velocity(wave, Membrane(units=70)).numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-12 * np.abs(theirs).max(), rtol=0)
