"""One searched field of an experiment: a range of numbers or a list of choices, as the table `[search]` gives it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, field_validator, model_validator

from bitspike.config import Config, Real, Truth, shown

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

Choice = bool | int | float | str
NONE = "none"  # among choices: the field is not set
_INSIDE = 0.381966  # where in a range the point between its ends lies that is tried: at no round number
_LARGEST = 2**53  # whole numbers up to which float64 is exact


class Parameter(Config):
    """A field that is searched: `low` and `high` of a range, or `choices`."""

    low: Real | None = None
    """The smallest value of a range."""
    high: Real | None = None
    """The largest value of a range."""
    log: Truth = False
    """Draw the logarithm of the value, so that 0.001 to 0.01 is as likely as 0.01 to 0.1."""
    step: Real | None = None
    """Only `low`, `low + step`, `low + 2 * step` and so on are drawn."""
    integer: Truth = False
    """Only whole numbers are drawn."""
    choices: list[Any] | None = None
    """The values to choose from: numbers, texts, or true and false. `"none"` leaves the field out."""
    when: dict[str, Any] = Field(default_factory=dict)
    """Search it only where these fields have these values, such as `{ "train.optimizer" = "sgd" }`."""
    source: str = ""
    """Why the range is as it is, in words."""

    @field_validator("choices")
    @classmethod
    def _of_one_kind(cls, choices: list[Any] | None) -> list[Any] | None:
        if choices is None:
            return None
        if not choices:
            raise ValueError("must have at least one value, but is []")
        for each in choices:
            if not isinstance(each, Choice) or (isinstance(each, float) and not math.isfinite(each)):
                raise ValueError(f"must be numbers, texts, or true and false, but one is {shown(each)}")
        kinds = {_kind(each) for each in choices if each != NONE}
        if len(kinds) > 1:
            came = " and ".join(sorted(kinds))
            raise ValueError(f"must be of one kind (and 'none' for no value), but {shown(choices)} has {came}")
        if len(set(choices)) < len(choices):
            raise ValueError(f"must differ from each other, but are {shown(choices)}")
        return choices

    @model_validator(mode="after")
    def _range_or_choices(self) -> Self:
        if self.choices is not None:
            for name in ("low", "high", "log", "step", "integer"):
                if name in self.model_fields_set:
                    raise ValueError(f"choices and {name} do not go together; give a range or choices")
            return self
        if self.low is None or self.high is None:
            raise ValueError("give low and high of a range, or a list of choices")
        if self.low >= self.high:
            raise ValueError(f"low must be < high, but they are {self.low:g} and {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be > 0 where log = true, but is {self.low:g}")
        if self.integer and any(
            value != int(value) or abs(value) > _LARGEST for value in (self.low, self.high, self.step or 1)
        ):
            raise ValueError("low, high and step must be whole numbers where integer = true")
        self._check_step()
        return self

    def _check_step(self) -> None:
        if self.step is None or self.low is None or self.high is None:
            return
        if self.log:
            raise ValueError("step and log = true do not go together; leave one of them out")
        if self.step <= 0:
            raise ValueError(f"step must be > 0, but is {self.step:g}")
        steps = (self.high - self.low) / self.step
        if steps > _LARGEST:
            raise ValueError(f"step is too small for a range of {self.low:g} to {self.high:g}, but is {self.step:g}")
        if steps < 1 or not math.isclose(steps, round(steps), rel_tol=1e-9):
            last = self.low + math.floor(steps) * self.step
            raise ValueError(f"high must be low and some steps, but steps of {self.step:g} end at {last:g}")

    def suggest(self, trial: BaseTrial, name: str) -> Choice:
        """Draw a value; `name` is the parameter's."""
        if self.choices is not None:
            drawn: Choice = trial.suggest_categorical(name, self.choices)
            return drawn
        low, high = self._ends()
        if self.integer:
            return trial.suggest_int(name, int(low), int(high), step=int(self.step or 1), log=self.log)
        return trial.suggest_float(name, low, high, step=self.step, log=self.log)

    def extremes(self) -> list[Choice]:
        """Return the values that are tried when a space is read: all choices; both ends of a range, and a point inside.

        A point inside that is no round number shows a field which takes whole numbers only.
        """
        if self.choices is not None:
            return list(self.choices)
        low, high = self._ends()
        if self.integer:
            return [int(low), int(high)]
        if self.step is not None:
            return [low, high, low + self.step]
        if self.log:
            return [low, high, low ** (1 - _INSIDE) * high**_INSIDE]
        return [low, high, low + _INSIDE * (high - low)]

    def _ends(self) -> tuple[float, float]:
        """Return the ends of a range; a parameter without choices has them."""
        return self.low or 0.0, self.high or 0.0

    def canonical(self) -> dict[str, Any]:
        """Return what decides the draws, as JSON holds it."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude={"source"})

    def words(self) -> str:
        """Return the range or the choices in words.

        Examples:
            >>> from bitspike.experiments.sweep.parameter import Parameter
            >>> Parameter(low=1e-4, high=0.1, log=True).words()
            '0.0001 to 0.1, log'
            >>> Parameter(choices=["none", 1.0]).words()
            'none or 1'
        """
        if self.choices is not None:
            return " or ".join(value_in_words(each) for each in self.choices)
        text = f"{self.low:g} to {self.high:g}"
        text += ", log" if self.log else ""
        text += ", whole" if self.integer else ""
        return text + (f", in steps of {self.step:g}" if self.step is not None else "")

    def applies(self, values: Mapping[str, object]) -> bool:
        """Return whether the fields that `when` names have these values."""
        return all(
            values.get(key) in (wanted if isinstance(wanted, list) else [wanted]) for key, wanted in self.when.items()
        )


def value_in_words(value: object) -> str:
    """Return a parameter's value as a person writes it, numbers with four digits."""
    if isinstance(value, bool) or value is None:
        return NONE if value is None else str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "texts" if isinstance(value, str) else "numbers"
