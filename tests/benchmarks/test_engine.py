"""benchmarks/engine.py on few calls: all contenders answer alike, and ONNX Runtime has the engine's spikes."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bitspike.deploy.runtime import plain_engine
from bitspike.ops.native.library import library
from helpers.random_models import random_input, random_model

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _same_threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def imported(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """Return a module of benchmarks/."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


@pytest.mark.skipif(library() is None, reason="the C extension is not built")
def test_it_tells_times_memory_and_the_floor(monkeypatch, tmp_path, capsys):
    pytest.importorskip("snntorch")
    engine = imported(monkeypatch, "engine")
    result = tmp_path / "engine.json"
    chosen = ["--cases", "shd-best", "--batches", "1", "--threads", "1", "--seconds", "0", "--ghz", "2"]
    engine.main([*chosen, "--out", str(result)])
    [row] = json.loads(result.read_text())["rows"]
    assert set(row["same answers"].values()) == {1.0}
    assert row["distance from the floor"] > 1
    assert row["bytes"]["weights as bits"] * 32 == row["bytes"]["float32 weights"]
    table = capsys.readouterr().out.split("| ms (times faster) |")[1]
    assert "| shd-best, T=100 | 1 | 1 |" in table


@pytest.mark.parametrize(("kinds", "delays", "leaky"), [("d", False, False), ("dd", True, True), ("cd", False, False)])
def test_onnx_runtime_has_the_spikes_of_the_definition(monkeypatch, kinds, delays, leaky):
    """Counts: sums of whole numbers are the same in any order."""
    pytest.importorskip("onnxruntime")
    onnx = imported(monkeypatch, "engine_onnx")
    model = next(
        model
        for seed in range(100)
        if (model := random_model(seed, kinds, delays=delays, leaky=leaky))
        and all(layer.recurrent is None and layer.adaptation is None for layer in model.layers)
        and (kinds == "dd" or all(layer.delays is None for layer in model.layers))
    )
    x = random_input(1, model, "counts", 2, 7)
    for given, steps in ((x, None), (x[0], model.steps)):
        if steps is not None and delays:
            continue  # a static input has no past
        expected = plain_engine.run(model, given, steps)
        _, *layers = onnx.onnx_spikes(model, given)
        for layer, mine, theirs in zip(model.layers, expected, layers, strict=True):
            wanted = mine.membrane if layer.theta is None else mine.spikes
            np.testing.assert_array_equal(theirs.reshape(wanted.shape), wanted)
