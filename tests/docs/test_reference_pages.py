"""Pages that are made from the package: nothing is missing in them."""

import re

import pytest
import typer
from command_line import command_line_page
from docstring_markdown import as_markdown
from experiment_fields import fields_page
from markdown_text import table
from search_spaces import search_spaces_page

from bitspike.cli import app
from bitspike.config import known_keys
from bitspike.experiments.schema import Experiment
from bitspike.experiments.sweep.space_files import searchable


def commands(command, name="bitspike"):
    """Every command's full name."""
    yield name, command
    for sub, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {sub}")


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_every_command_has_its_options():
    page = command_line_page()
    sections = dict(re.findall(r"^#+ (bitspike.*)\n((?:(?!^#).*\n)*)", page, re.MULTILINE))
    assert sections.keys() == COMMANDS.keys()
    for name, command in COMMANDS.items():
        for param in command.params:
            assert all(option in sections[name] for option in param.opts if option.startswith("-")), (name, param.opts)


def test_a_default_and_limits_have_a_column():
    page = command_line_page()
    assert "| `--seeds <int>` | Networks trained for each case. | 20; x>=1 |" in page
    assert re.search(r"\| <code>--device auto&#124;cpu.*</code> \| .* \| auto \|", page)


@pytest.mark.parametrize("key", known_keys(Experiment))
def test_every_field_has_a_row(key):
    assert re.search(rf"^\| `{re.escape(key)}`? ?\|?", fields_page(), re.MULTILINE) or f"## `[{key}]`" in fields_page()


def test_a_row_has_type_default_and_limits():
    page = fields_page()
    assert "| `train.lr` | number `> 0` | *required* |" in page
    assert "| `train.betas` | a list of 2: number `>= 0, < 1`, number `>= 0, < 1` | `[0.9, 0.999]` |" in page
    assert '| `net.norm` | `"step"`, `"shared"`, `"none"` | `"none"` |' in page
    assert "| `net.theta.start` | number `> 0` | *required* |" in page


def test_every_space_is_there_with_sources():
    page = search_spaces_page()
    assert all(f"`{name}`" in page for name in searchable())
    assert "| `net.theta.1.rate` | 3e-06 to 0.1, log | the paper's SHD cell: 1.36e-5" in page
    assert "| `train.momentum` | 0.5 to 0.99, where train.optimizer is sgd | the paper's cell: 0.86" in page
    assert not [line for line in page.splitlines() if line.endswith("|  |")]  # no range without a source


def test_a_cell_cannot_end_early():
    assert table(["a"], [["x|y\nz"]]).splitlines()[-1] == r"| x\|y z |"


def test_products_are_no_emphasis():
    text = "u = beta*u - theta*z, `a*b`\n\nExamples:\n    >>> 2*3*4\n    24"
    assert as_markdown(text) == "u = beta\\*u - theta\\*z, `a*b`\n\nExamples:\n    >>> 2*3*4\n    24"
