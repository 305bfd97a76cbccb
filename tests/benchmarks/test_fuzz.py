"""benchmarks/fuzz: the two fuzzers work, on few inputs; Atheris itself is not needed here."""

from __future__ import annotations

import importlib
import random
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitspike.deploy.packing.content import parse_packed
from bitspike.ops.native.library import library

FUZZ = Path(__file__).parents[2] / "benchmarks" / "fuzz"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return packed_fuzz.py with an Atheris that changes one byte."""
    atheris = SimpleNamespace(
        instrument_imports=lambda include: nullcontext(), Mutate=lambda data, most: data[:-1] + b"\x01"
    )
    monkeypatch.setitem(sys.modules, "atheris", atheris)
    monkeypatch.syspath_prepend(str(FUZZ))
    monkeypatch.delitem(sys.modules, "packed_fuzz", raising=False)
    found = importlib.import_module("packed_fuzz")
    monkeypatch.setattr(found, "FILE", tmp_path / "forged.safetensors", raising=False)
    monkeypatch.delitem(sys.modules, "packed_fuzz")
    return found


@pytest.mark.skipif(library() is None, reason="the C extension is not built")
def test_files_load_and_run_or_are_refused(script: Any) -> None:
    chance = random.Random(0)
    with np.errstate(all="ignore"):
        for _ in range(150):
            script.test_one_input(script.mutate(chance.choice(script.FILES), 20_000, chance.randrange(2**32)))
    assert script.ends["loads and runs"] > 10
    assert script.ends["ValueError"] > 50


def test_new_structures_come_with_arrays_that_fit(script: Any) -> None:
    chance = random.Random(1)
    loaded = []
    for _ in range(90):
        content = script.hostile_files.signed(script.refit(chance.choice(script.FILES), chance))
        try:
            loaded.append(parse_packed(content).model)
        except ValueError:
            continue
    assert len(loaded) > 20
    assert len({tuple(layer.output for layer in model.layers) for model in loaded}) > 5


def test_what_must_not_happen_ends_the_run(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(script.Wrong, match="characters"):
        script.require_line(ValueError("two\nlines"))
    monkeypatch.setattr(script, "allowed", lambda content, model: 1000)
    with pytest.raises(script.Wrong, match="bytes of memory, more than 1000"):
        script.test_one_input(script.FILES[0])
    monkeypatch.setattr(script, "load_packed", lambda path, threads: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        script.test_one_input(script.FILES[0])


@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("make"), reason="needs gcc and make")
def test_all_builds_of_the_runtime_agree_on_random_networks(tmp_path: Path) -> None:
    call = ["make", "-s", "-C", str(FUZZ), "alone", f"OUT={tmp_path}", "CC=gcc", "MANY=150"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""  # no warning either
    ran = int(done.stdout.split()[1])
    assert ran > 75
