"""benchmarks/gpu_equality.py: fused kernels (in Triton's interpreter), modules, and spikes that were changed."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import bitspike
from bitspike.data.samples import Images
from bitspike.nn import SpikingNetwork

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CPU = torch.device("cpu")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_equality")


def network(glances: int = 1) -> SpikingNetwork:
    """Return a network whose sums are exact in any order: images of 0 and 1, beta = 1/2."""
    made = torch.Generator().manual_seed(0)
    net = bitspike.build(
        "4Conv3-AP2-36Dense3", (1, 8, 8), steps=5 * glances, glances=glances, theta=0.75, beta=0.5, generator=made
    )
    return net.eval()


def images(count: int) -> Images:
    drawn = torch.randint(0, 2, (count, 1, 8, 8), generator=torch.Generator().manual_seed(1))
    return Images(drawn.float(), torch.arange(count) % 3)


@pytest.mark.parametrize("glances", [1, 5])
def test_fused_kernels_spike_as_the_cpu_does(script: Any, glances: int) -> None:
    net = network(glances)
    found = script.compare(net, CPU, images(5), 4, 3)
    assert found["path"] == "fused"  # tests run in Triton's interpreter
    assert (found["samples"], found["neuron_steps"]) == (4, 4 * net.steps * (4 * 9 + 3))
    assert found["spikes"] > 0
    assert found["different"] == {
        "spikes": {"layers.0.lif": 0, "layers.1.lif": 0},
        "samples": 0,
        "answers": 0,
        "largest_of_a_score": 0.0,
    }
    assert found["right_cpu"] == found["right_device"]


def test_what_differs_is_counted(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = script.spikes_on_device

    def flipped(net: SpikingNetwork, x: torch.Tensor) -> Any:
        spikes, scores = whole(net, x)
        spikes[1][0, 0] = 1 - spikes[1][0, 0]  # all three neurons of the first sample's first step
        return spikes, scores + torch.tensor([0.0, 0.0, 2.0])

    monkeypatch.setattr(script, "spikes_on_device", flipped)
    found = script.compare(network(), CPU, images(4), None, 2)
    assert found["different"]["spikes"] == {"layers.0.lif": 0, "layers.1.lif": 6}
    assert found["different"]["samples"] == 2
    assert found["different"]["largest_of_a_score"] == 2.0


def test_the_command_writes_a_result(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "test_samples", lambda path: images(4))
    monkeypatch.setattr(bitspike, "load_run", lambda path: network())
    monkeypatch.setenv("BITSPIKE_BACKEND", "torch")
    out = tmp_path / "equality.json"
    monkeypatch.setattr(
        sys, "argv", ["gpu_equality.py", "a", "b", "--device", "cpu", "--limit", "3", "--out", str(out)]
    )
    script.main()
    found = json.loads(out.read_text())
    assert found["command"].startswith("python gpu_equality.py a b --device cpu")
    assert found["device"] == "cpu"
    assert [found[run]["samples"] for run in "ab"] == [3, 3]
    assert found["a"]["path"].startswith("modules: BITSPIKE_BACKEND")
    assert len(capsys.readouterr().out.splitlines()) == 2
