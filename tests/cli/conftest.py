"""Folders in which a user has an experiment, or a finished run of it."""

import pytest
from typer.testing import CliRunner

from bitspike.cli import app
from helpers.own_images import write_experiment


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with a finished run, and what the command printed."""
    folder = tmp_path_factory.mktemp("done")
    toml = write_experiment(folder)
    result = CliRunner().invoke(app, ["train", str(toml), "--out", str(folder / "run"), "--json"])
    assert result.exit_code == 0, result.output
    return folder / "run", result


@pytest.fixture
def here(workplace):
    """A folder with an experiment in it."""
    write_experiment(workplace)
    return workplace
