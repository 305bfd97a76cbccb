"""The command line: it only parses options, calls the library and prints results."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

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
from bitspike.cli.errors import in_one_line

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
        with warnings.catch_warnings():
            if not os.environ.get("BITSPIKE_DEBUG"):
                warnings.showwarning = _say_warning
            app()
    except KeyboardInterrupt:
        say("bitspike: interrupted")
        raise SystemExit(130) from None
    except RuntimeError as error:
        where = "the GPU" if type(error).__name__ == "OutOfMemoryError" else "the machine"
        if (where == "the machine" and "can't allocate memory" not in str(error)) or os.environ.get("BITSPIKE_DEBUG"):
            raise
        say(f"bitspike: {where} is out of memory; try a smaller train.batch ({in_one_line(error)})")
        raise SystemExit(1) from None
    except (ValueError, TypeError, KeyError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("BITSPIKE_DEBUG"):
            raise
        say(f"bitspike: {in_one_line(error)}")
        raise SystemExit(1) from None


def _say_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """Print a warning in one line, without the place in the code that it comes from."""
    say(f"warning: {' '.join(str(message).split())}")
