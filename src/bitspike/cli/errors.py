"""Errors as the command line says them."""

from __future__ import annotations

from bitspike._lazy import TRAIN, needs
from bitspike.text import one_line


def in_one_line(error: BaseException) -> str:
    """Return the message of an error for a person, in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name in TRAIN and "pip install" not in str(error):
        return needs(error.name, "this command")
    return one_line(error)
