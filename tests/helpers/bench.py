"""Cases of the benchmark small enough for a CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bitspike.bench.cases import CASES, Case
from bitspike.bench.measure import Plan, run

CPU = torch.device("cpu")


def tiny(name: str, **changes) -> Case:
    small = {
        "fashion": {},
        "dvs128": {},
        "shd": {"notation": "30Dense12Dense4", "input_shape": (30,), "density": 0.9, "repeats": 1 / 3},
    }
    layer = {"notation": "24Dense24", "input_shape": (24,), "density": 0.5}
    return replace(CASES[name], **{"steps": 8, "batch": 2, **small.get(name, layer), **changes})


TINY = [tiny("fashion"), tiny("dvs128"), tiny("shd"), tiny("layer2k")]
by_name = pytest.mark.parametrize("case", TINY, ids=lambda case: case.name)


def measured(*cases: Case, against=("snntorch",), **options):
    """The result of the benchmark on these cases, in as little time as it takes."""
    pytest.importorskip("snntorch")
    return run(Plan(cases, against, CPU, 0.0, **options))
