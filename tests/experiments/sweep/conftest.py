"""Optuna says what it does in every test; only its warnings are of interest."""

import optuna
import pytest

from helpers.postgres import find_tools, running_server


@pytest.fixture(autouse=True, scope="session")
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture(scope="package")
def server():
    """A PostgreSQL server."""
    tools = find_tools()
    if tools is None:
        pytest.skip("PostgreSQL (initdb, pg_ctl) is not installed")
    with running_server(tools) as running:
        yield running
