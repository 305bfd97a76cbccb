"""Errors as the command line says them."""

from __future__ import annotations

from bitspike._lazy import TRAIN, needs


def in_one_line(error: BaseException) -> str:
    """Return the message of an error for a person, in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name in TRAIN and "pip install" not in str(error):
        return needs(error.name, "this command")
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split("\n")) or type(error).__name__
