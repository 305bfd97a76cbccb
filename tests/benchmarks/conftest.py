"""Fixtures of the tests of benchmarks/fair_search.py and its parts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.fair_search import Played

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PARTS = ("fair_search", "fair_search_commands", "fair_search_pack", "fair_search_report", "fair_search_settings")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in PARTS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("fair_search")


@pytest.fixture
def played(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    found = Played(script, tmp_path / "out")
    monkeypatch.setattr(script.Commands, "run", lambda self, *words, **more: found.run(self, *words, **more))
    return found


@pytest.fixture
def as_process(script: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Take a piece of Python for the program `bitspike`."""
    commands = sys.modules["fair_search_commands"]
    monkeypatch.setattr(commands, "LOOK", 0.02)
    return lambda code: monkeypatch.setattr(commands, "BITSPIKE", f"import os, signal, sys, time\n{code}\n")
