"""The results of the benchmark as tables, pictures and on the command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from rich.console import Console

from bitspike.bench import cases as cases_module
from bitspike.bench import peers
from bitspike.bench.picture import draw
from bitspike.bench.show import number, show
from helpers.bench import tiny


def test_tables_name_every_row(result):
    console = Console(width=120, record=True, file=io.StringIO())
    broken = {"cases": {**result["cases"], "dvs128": {**result["cases"]["shd"], "rows": {"spyx": {"error": "X: y"}}}}}
    show(broken, console)
    text = console.export_text()
    for word in (
        "shd: SHD",
        "bitspike",
        "snntorch 1.0.0",
        "differs:",
        "floor",
        "failed",
        "spyx: X: y",
        "growth: dense, T",
    ):
        assert word in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (0.012345, "0.0123"), (12.34, "12.3"), (264.4, "264"), (56789.0, "56,800")],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_pictures_are_drawn_of_what_there_is(result, tmp_path):
    assert [path.name for path in draw(result, tmp_path)] == ["bench.png", "growth.png"]
    assert (tmp_path / "bench.png").read_bytes()[:4] == b"\x89PNG"
    only = {**result, "cases": {"shd": result["cases"]["shd"]}}
    assert [path.name for path in draw(only, tmp_path / "more")] == ["bench.png"]


def test_the_command_line_measures_prints_and_saves(cli, tmp_path, monkeypatch):
    pytest.importorskip("snntorch")
    monkeypatch.setitem(cases_module.CASES, "shd", tiny("shd"))
    status, out, _ = cli(
        "bench", "shd", "--against", "snntorch", "--device", "cpu", "--seconds", "0", "--json", "--out", tmp_path
    )
    assert status == 0
    printed = json.loads(out)
    assert printed == json.loads((tmp_path / "bench.json").read_text())
    assert list(printed["cases"]["shd"]["rows"]) == ["bitspike", "snntorch"]
    assert (tmp_path / "bench.png").is_file()
    status, out, _ = cli("bench", "shd", "--against", "none", "--device", "cpu", "--seconds", "0")
    assert (status, "snntorch" in out) == (0, False)
    assert "bitspike" in out


@pytest.mark.parametrize(("against", "said"), [("all", True), ("none", False)])
def test_peers_that_are_not_installed_are_named(against, said, cli, monkeypatch):
    monkeypatch.setitem(cases_module.CASES, "shd", tiny("shd"))
    monkeypatch.setattr(peers, "installed", lambda name: False)
    status, out, _ = cli("bench", "shd", "--against", against, "--device", "cpu", "--seconds", "0")
    assert status == 0
    lines = [line for line in out.splitlines() if line.startswith("not installed, so not measured: ")]
    assert len(lines) == said
    assert all(how in lines[0] for how in peers.KNOWN.values() if said)
    status, out, _ = cli("bench", "shd", "--against", against, "--device", "cpu", "--seconds", "0", "--json")
    assert json.loads(out)["not_installed"] == (peers.KNOWN if said else {})


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_no_number_is_cut_on_a_narrow_terminal(result, columns):
    row = {
        **result["cases"]["shd"]["rows"]["snntorch"],
        "gpu": {"kernels": 11311, "launches": 22681},
        "peak_mb": 5510.0,
    }
    row |= {"ms": {"median": 1234.0, "low": 1111.0, "high": 5678.0}, "bytes_per_neuron_step": 57.4}
    cases = {
        name: {**case, "floor": {**case["floor"], "ms": 1.0}, "rows": {"spikingjelly-folded-hoisted": row}}
        for name, case in result["cases"].items()
    }
    console = Console(width=columns, record=True, file=io.StringIO())
    show({"cases": cases}, console)
    text = console.export_text()
    assert "…" not in text
    assert all(part in text for part in ("1,110-5,680", "11,300 (22681)", "5,510", "1,230", "57.4"))


def test_the_command_lines_errors_are_one_line(cli, monkeypatch):
    status, _, err = cli("bench", "shdd")
    assert (status, err.count("\n")) == (1, 1)
    assert "known: fashion" in err
    monkeypatch.setattr(peers, "installed", lambda name: False)
    status, _, err = cli("bench", "shd", "--against", "spikingjelly")
    assert (status, err.count("\n")) == (1, 1)
    assert "spikingjelly is not installed; run: pip install --no-deps spikingjelly==2.0.0" in err


def test_no_peer_is_loaded_unasked():
    names = ("snntorch", "spikingjelly", "norse", "spyx", "jax", "matplotlib")
    code = (
        f"import sys, bitspike.bench.measure, bitspike.bench.picture; print([n for n in {names!r} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
