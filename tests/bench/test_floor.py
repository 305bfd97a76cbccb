"""The least work of a step, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bitspike.bench.floor import Ceilings, Work, count, measure_ceilings
from helpers.bench import CPU, tiny


def test_a_dense_network_counted_by_hand():
    case = tiny("shd", notation="30Dense12Dense4", batch=2, steps=8)
    work = count(case, "adam")
    assert work.operations == 2 * 16 * (2 * 30 * 12 + 3 * 12 * 4)  # the first layer has no gradient of its input
    weights = 31 * 12 + 13 * 4
    assert work.bytes == 2 * 16 * 30 + 3 * 16 * 12 // 8 + 10 * 4 * weights
    assert work.streamed == work.bytes + 8 * 16 * (12 + 4) + 4 * 16 * 12


def test_a_convolution_with_its_pool_is_one_strided_convolution_and_an_image_is_convolved_once():
    case = tiny("fashion")
    operations = 2 * (
        2 * 2 * (16 * 144) * 6**2  # once, of the weights and forward only
        + 3 * 16 * (64 * 16) * 16 * 6**2
        + 3 * 16 * 1024 * 10
    )
    assert count(case, "sgd").operations == operations
    assert count(replace(case, steps=16), "sgd").operations < 2 * operations
    moved = count(replace(case, static=False), "sgd").operations - operations
    assert moved == 2 * 2 * (16 - 2) * (16 * 144) * 6**2


def test_where_zeros_are_skipped_only_what_must_be_done_counts():
    case = tiny("shd", notation="30Dense12Dense4", batch=2, steps=8, density=0.25)
    work = count(case, "adam", skips_zeros=True)
    assert work.operations == 2 * 16 * (2 * 30 * 12 * 0.25 + 12 * 4)  # of the second layer the gradient of its input
    dense = count(case, "adam")
    assert (work.bytes, work.streamed) == (dense.bytes, dense.streamed)
    assert count(replace(case, density=1.0, notation="30Dense12"), "adam", skips_zeros=True).operations == (
        count(replace(case, notation="30Dense12"), "adam").operations
    )


def test_the_floor_of_a_cpu_is_that_of_code_that_skips_zeros(result):
    case = tiny("shd")
    assert result["cases"]["shd"]["floor"]["operations"] == count(case, "adam", skips_zeros=True).operations
    assert result["cases"]["shd"]["floor"]["operations"] < count(case, "adam").operations


def test_the_floor_is_the_slower_of_products_and_memory():
    ceilings = Ceilings(operations=1e12, bytes=1e9)
    assert ceilings.milliseconds(Work(int(2e9), 1000, 5_000_000)) == pytest.approx(2)
    assert ceilings.milliseconds(Work(int(2e9), 1000, 5_000_000), streamed=True) == pytest.approx(5)


def test_ceilings_keep_the_best_seen():
    found = measure_ceilings(CPU, Ceilings(1e30, 1.0))
    assert found.operations == 1e30
    assert 1e8 < found.bytes < 1e13
