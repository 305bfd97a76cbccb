"""What every test of the benchmark needs: one thread, a known speed of the machine, and a result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bitspike.bench import measure
from bitspike.bench.cases import growth
from bitspike.bench.floor import Ceilings
from helpers.bench import measured, tiny
from helpers.peers import one_thread


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(autouse=True, scope="module")
def _known_ceilings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "measure_ceilings", lambda device, before=None: Ceilings(2e11, 3e10))
        yield


@pytest.fixture(scope="module")
def result():
    return measured(tiny("shd"), replace(growth()[0], steps=4, batch=2), replace(growth()[1], steps=6, batch=2))
