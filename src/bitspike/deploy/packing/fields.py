"""Values of a JSON document that nobody vouches for: each is checked for its type and bounds where it is read."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

MOST_SHOWN = 100  # characters of a value in an error


class Invalid(ValueError):
    """What is wrong with a packed network, in one line that does not yet say in which file."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; raise Invalid for bad JSON, a key that occurs twice, NaN, or deep nesting."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except Invalid:
        raise
    except (ValueError, RecursionError) as error:
        raise Invalid(f"its header is not JSON ({str(error).splitlines()[0][:100]})") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Invalid("its header has a key twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise Invalid(f"its header has the number {name}")


class Fields:
    """The members of a JSON object. Each is read once by a method for its type; `finish` refuses those left over."""

    def __init__(self, value: object, where: str) -> None:
        self.where = where
        if not isinstance(value, dict):
            raise Invalid(f"{where} must be an object, but is {shown(value)}")
        self._left: dict[str, Any] = dict(value)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Any:
        """Return a member that must be there, of any type."""
        if name not in self._left:
            raise Invalid(f"{self.where} has no {name!r}")
        return self._left.pop(name)

    def whole(self, name: str, low: int, high: int) -> int:
        """Return a whole number in low..high."""
        return require_whole(f"{self.where}: {name}", self.take(name), low, high)

    def number(self, name: str, low: float, high: float) -> float:
        """Return a real number in low..high."""
        return require_number(f"{self.where}: {name}", self.take(name), low, high)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of `choices`."""
        value = self.take(name)
        if not isinstance(value, str) or value not in choices:
            raise Invalid(f"{self.where}: {name} must be {' or '.join(map(repr, choices))}, but is {shown(value)}")
        return value

    def truth(self, name: str) -> bool:
        """Return true or false."""
        value = self.take(name)
        if not isinstance(value, bool):
            raise Invalid(f"{self.where}: {name} must be true or false, but is {shown(value)}")
        return value

    def text(self, name: str, most: int) -> str:
        """Return a printable text of at most so many characters."""
        return require_text(f"{self.where}: {name}", self.take(name), most)

    def items(self, name: str, most: int) -> list[Any]:
        """Return a list of at most so many values."""
        return require_list(f"{self.where}: {name}", self.take(name), most)

    def finish(self) -> None:
        """Raise if a member has not been read: a reader that does not know it would run another network."""
        if self._left:
            raise Invalid(f"{self.where} has an unknown {shown(min(self._left))}")


def require_whole(what: str, value: object, low: int, high: int) -> int:
    """Return `value` if it is a whole number in low..high."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Invalid(f"{what} must be a whole number in {low}..{high}, but is {shown(value)}")
    return value


def require_number(what: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float if it is a finite number in low..high."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return float(value)
    if not isinstance(value, float) or not math.isfinite(value) or not low <= value <= high:
        raise Invalid(f"{what} must be a number in {low:g}..{high:g}, but is {shown(value)}")
    return value


def require_text(what: str, value: object, most: int) -> str:
    """Return `value` if it is a text that is safe to print: no line breaks, control characters or surrogates."""
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise Invalid(f"{what} must be a printable text of at most {most} characters, but is {shown(value)}")
    return value


def require_list(what: str, value: object, most: int) -> list[Any]:
    """Return `value` if it is a list of at most so many values."""
    if not isinstance(value, list) or len(value) > most:
        size = f"a list of {len(value)}" if isinstance(value, list) else shown(value)
        raise Invalid(f"{what} must be a list of at most {most} values, but is {size}")
    return value


def shown(value: object) -> str:
    """Return a short text of one line for a value of any size."""
    if isinstance(value, int) and not -(10**30) < value < 10**30:
        return "a number of more than 30 digits"
    text = reprlib.repr(value).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
