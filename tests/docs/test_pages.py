"""Pages are wrapped, and the files that they name exist."""

import re
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
PAGES = sorted((HOME / "docs").rglob("*.md"))
WIDTH = 100
FILE = re.compile(r"`((?:benchmarks|docs|examples|results|src|tests|ops|nn|train|data|cli|experiments)/[\w./-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(HOME).as_posix())
def test_lines_are_wrapped(page):
    """All but rows of tables and what programs print, which cannot be."""
    shown = re.sub(r"^```text.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines = shown.splitlines()
    assert not [f"{i}: {line}" for i, line in enumerate(lines, 1) if len(line) > WIDTH and not line.startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(HOME).as_posix())
def test_named_files_exist(page):
    """Of the repository, or of the package where the name begins within it."""
    named = FILE.findall(page.read_text(encoding="utf-8"))
    assert not [name for name in named if not any((place / name).exists() for place in (HOME, HOME / "src/bitspike"))]
