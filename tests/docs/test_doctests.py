"""Every public name has an example in its docstring that runs as it stands, alone."""

import doctest
import inspect
from pathlib import Path

import pytest
from public_names import public_names

HOME = Path(__file__).parents[2]
NAMES = public_names()
PAGES = "".join(page.read_text(encoding="utf-8") for page in (HOME / "docs" / "reference" / "api").glob("*.md"))


def example(name):
    """The examples of a docstring, with nothing imported before them."""
    text = inspect.getdoc(NAMES[name]) or ""
    return doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, None, 0)


def test_there_are_public_names():
    assert {"bitspike.lif", "bitspike.data.load", "bitspike.nn.Block", "bitspike.ops.spike"} <= NAMES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name, monkeypatch, capsys):
    monkeypatch.chdir(HOME)  # one of them reads results/
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example(name))
    failed, tried = runner.summarize(verbose=False)
    assert tried, f"{name} has no example: end its docstring in a section `Examples:` with >>> lines"
    assert not failed, capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_has_the_name(name):
    assert PAGES.count(f"::: {name}\n") == 1, f"{name} must be on one page of docs/reference/api, as ::: {name}"
