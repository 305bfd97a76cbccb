"""The page "The command line": every command with its arguments and options, as `--help` tells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from markdown_text import code, table

HEAD = """# The command line

Every command prints its options with `--help`. Where a command has `--json`, the result goes to
stdout as JSON and messages go to stderr.

A command that fails prints one line and ends with status 1. Wrong options end with status 2, and
Ctrl-C with 130.

| environment variable | meaning |
|---|---|
| `BITSPIKE_DATA` | the folder of datasets; the default is the platform's folder for user data |
| `BITSPIKE_DEBUG` | `1` shows the whole traceback of an error |
| `BITSPIKE_BACKEND` | the backend of neurons whose backend is `auto`, such as `reference` |
| `BITSPIKE_CPU_CACHE_MB` | how much memory freed CPU outputs may hold for reuse; the default is 1024 |
| `OMP_NUM_THREADS`, `OMP_WAIT_POLICY`, `GOMP_SPINCOUNT` | threads on a CPU; they take precedence over our choice |

"""


def command_line_page() -> str:
    """Return the page."""
    import typer

    from bitspike.cli import app

    return HEAD + "\n".join(_sections(typer.main.get_command(app), None, "bitspike"))


def _sections(command: Any, parent: Any, name: str) -> Iterator[str]:
    """Yield a section for a command, then those of its commands."""
    context = command.context_class(command, info_name=name.rpartition(" ")[2], parent=parent)
    usage = " ".join(piece for piece in command.collect_usage_pieces(context))
    level = min(2 + name.count(" "), 4)
    yield f"{'#' * level} {name}\n\n```\n{name} {usage}\n```\n\n{_paragraphs(command.help)}\n"
    records = [record for param in command.params if (record := param.get_help_record(context)) is not None]
    if records:
        yield table(["argument or option", "meaning", "default, limits"], [_row(*record) for record in records])
    for sub, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _sections(inner, context, f"{name} {sub}")


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n")) + "\n"


def _row(name: str, meaning: str) -> list[str]:
    """Return a row; typer writes `[default: auto; x>=1]` behind the meaning."""
    extra = re.search(r"\s*\[((?:default: |required|x|\d)[^\[\]]*(?:\[[^\]]*\])?[^\[\]]*)\]$", meaning)
    limits = extra[1].replace("default: ", "") if extra else ""
    return [code(name.replace(" range>", ">")), meaning[: extra.start()] if extra else meaning, limits]
