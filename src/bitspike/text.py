"""Functions for what is said to a person: text from outside made safe to show, and the name that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return a question for the known name that is nearest to a wrong one, and a space; "" if none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean {near[0]!r}? " if near else ""


def number_of(count: int, noun: str) -> str:
    """Return a number of things in words.

    Examples:
        >>> from bitspike.text import number_of
        >>> number_of(1, "trial"), number_of(1500, "trial")
        ('1 trial', '1,500 trials')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, or the name of its kind where it has none.

    Examples:
        >>> from bitspike.text import one_line
        >>> one_line(FileNotFoundError(2, "No such file or directory", "shoe.png"))
        'shoe.png: No such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    return " ".join(str(text).split()) or type(error).__name__
