"""Optuna says what it does in every test; only its warnings are of interest."""

import optuna
import pytest


@pytest.fixture(autouse=True, scope="session")
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
