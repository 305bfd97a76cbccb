"""A reader of untrusted TOML files: with limits, and with errors that show the wrong line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from bitspike.config import shown

LARGEST = 2**20  # bytes; an experiment has a few thousand
DEEPEST = 32  # parts of a dotted key, for which Python's parser takes quadratic time
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}\.[ \t]*+){{{DEEPEST}}}")
_PLACE = re.compile(r"\(at line (\d+), column \d+\)$")
_HEADING = re.compile(r"(\[[A-Za-z0-9_.-]+\])[ \t]*[A-Za-z0-9_\"']")
_TWICE = re.compile(r"Cannot declare \((.*?)\) twice")
IN_QUOTES = "write a path with backslashes in single quotes, '...', or with /"


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; an error names the file and shows the line."""
    with path.open("rb") as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(
            f"{path} is not valid TOML: it has more than {LARGEST:,} bytes; an experiment has a few thousand"
        )
    try:
        text = content.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {_not_text(content, error)}") from None
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; any text gives tables or a ValueError in a short time."""
    if _LONG_KEY.search(text):
        raise ValueError(f"it has a key of more than {DEEPEST} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(_with_line(str(error), text)) from None
    except RecursionError:
        raise ValueError("its lists or tables are nested too deeply") from None
    except ValueError:  # Python refuses numbers with so many digits
        raise ValueError("it has a number of thousands of digits") from None


def _with_line(message: str, text: str) -> str:
    """Return the parser's message with the line that it names."""
    place = _PLACE.search(message)
    if place is None:
        return message + _twice(message)
    line = text.replace("\r\n", "\n").split("\n")[int(place[1]) - 1].strip()
    remedy = f"; {IN_QUOTES}" if re.search(r'"[^"]*\\', line) else _twice(message)
    if heading := _HEADING.match(line):
        remedy = f"; {heading[1]} needs a line of its own, with the fields below it"
    return f"{message}: {shown(line, str)}{remedy}"


def _twice(message: str) -> str:
    """Return advice for a field or a table that is there twice; an empty text for any other message."""
    if message.startswith("Cannot overwrite a value"):
        return "; it is given twice: leave one of them out"
    if declared := _TWICE.match(message):
        table = ".".join(re.findall(r"'([^']*)'", declared[1]))
        return f"; the table [{table}] is there twice: write the fields of both below one of them"
    return ""


def _not_text(content: bytes, error: UnicodeDecodeError) -> str:
    """Return words that describe a file that is not UTF-8."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is text in UTF-16; save it as UTF-8"
    return (
        f"it is not text in UTF-8 (byte {error.start + 1} is {content[error.start]:#04x}); is it an experiment's file?"
    )
