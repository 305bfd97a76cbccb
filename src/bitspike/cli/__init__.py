"""The command line: it only parses options, calls the library and prints results."""

from __future__ import annotations

import os
import sys

from bitspike._lazy import TRAIN, needs
from bitspike.cli import (  # noqa: F401  (each adds its commands)
    bench,
    data,
    data_info,
    encode,
    evaluate,
    export,
    predict,
    preset,
    pretrained,
    reproduce,
    suggest,
    sweep,
    train,
)
from bitspike.cli.app import app
from bitspike.cli.console import say

__all__ = ["app", "main"]


def main() -> None:
    """Run the `bitspike` command; an error ends in one line, and BITSPIKE_DEBUG=1 shows where it comes from."""
    try:
        _run()
    except SystemExit as end:
        if os.environ.get("WORLD_SIZE", "1") == "1":
            raise
        # A process of torchrun: PyTorch's communication threads may abort it on its way out, after all is done.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def _run() -> None:
    try:
        app()
    except KeyboardInterrupt:
        say("bitspike: interrupted")
        raise SystemExit(130) from None
    except RuntimeError as error:
        where = "the GPU" if type(error).__name__ == "OutOfMemoryError" else "the machine"
        if (where == "the machine" and "can't allocate memory" not in str(error)) or os.environ.get("BITSPIKE_DEBUG"):
            raise
        say(f"bitspike: {where} is out of memory; try a smaller train.batch ({_line(error)})")
        raise SystemExit(1) from None
    except (ValueError, TypeError, KeyError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("BITSPIKE_DEBUG"):
            raise
        say(f"bitspike: {_line(error)}")
        raise SystemExit(1) from None


def _line(error: BaseException) -> str:
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
