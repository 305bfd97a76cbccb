"""The benchmark as a whole, on cases small enough for a CPU: its result and what fails in it."""

from __future__ import annotations

import json

import pytest

from bitspike.bench import measure, peers
from bitspike.bench.measure import fastest
from helpers.bench import measured, tiny


def test_the_result_is_plain_data(result):
    assert json.loads(json.dumps(result)) == result
    assert result["format"] == 1
    assert set(result["versions"]) >= {"bitspike", "torch", "python", "machine"}
    case = result["cases"]["shd"]
    assert set(case) >= {"title", "notation", "batch", "steps", "work", "neuron_steps", "floor", "rows"}
    assert set(case["floor"]) == {"operations", "bytes", "bytes_streamed", "ms", "ms_streamed"}
    assert list(case["rows"]) == ["bitspike", "snntorch"]
    for row in case["rows"].values():
        assert {"library", "version", "setting", "differs", "ms", "rounds", "peak_mb", "times_ours", "gpu"} <= set(row)
        assert row["ms"]["low"] <= row["ms"]["median"] <= row["ms"]["high"]
        assert row["rounds"] >= 3
        expected = 1e6 * row["ms"]["median"] / case["neuron_steps"]
        assert row["ns_per_neuron_step"] == pytest.approx(expected, rel=1e-3)
    assert case["rows"]["bitspike"]["times_ours"]["median"] == 1
    assert case["floor"]["ms"] == pytest.approx(
        1e3
        * max(
            case["floor"]["operations"] / result["ceilings"]["operations_per_s"],
            case["floor"]["bytes"] / result["ceilings"]["bytes_per_s"],
        ),
        rel=1e-3,
    )


def test_one_that_fails_is_written_down_and_the_others_go_on(monkeypatch):
    def broken(problem):
        raise RuntimeError("no kernel\nfor this device")

    told = []
    saved = []
    known = {"snntorch": (peers.Variant("snntorch", broken),)}
    monkeypatch.setattr(measure, "variants", lambda name: known[name])
    result = measured(
        tiny("shd"),
        against=("snntorch", "norse"),
        failed=lambda name, error: told.append(name),
        done=lambda latest: saved.append(list(latest["cases"])),
    )
    rows = result["cases"]["shd"]["rows"]
    assert rows["snntorch"] == {"error": "RuntimeError: no kernel for this device"}
    assert rows["norse"]["error"].startswith("KeyError")
    assert "ms" in rows["bitspike"]
    assert sorted(told) == ["norse", "snntorch"]
    assert saved == [["shd"]]


def test_after_the_deadline_nobody_starts():
    rows = measured(tiny("shd"), deadline=0.0)["cases"]["shd"]["rows"]
    assert rows == {name: {"error": "no time was left"} for name in ("bitspike", "snntorch")}


def test_the_fastest_of_a_library():
    rows = {
        "bitspike": {"library": "bitspike", "ms": {"median": 1}},
        "sj": {"library": "spikingjelly", "ms": {"median": 9}},
        "sj-folded": {"library": "spikingjelly", "ms": {"median": 5}},
        "sj-bf16": {"error": "no"},
    }
    assert fastest(rows, "spikingjelly") == "sj-folded"
    assert fastest(rows, "norse") is None
