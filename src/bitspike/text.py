"""Functions that make text from a file, a server or a command line safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return the text with control characters, and others that a terminal cannot show, written as \u001b and \n."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _spelt(c) for c in text)


def _spelt(char: str) -> str:
    code = ord(char)
    return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(char) or (
        f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
    )


def printable_lines(text: str) -> str:
    """Return a text of several lines with each line made safe; the line breaks stay."""
    return "\n".join(map(printable, text.split("\n")))
