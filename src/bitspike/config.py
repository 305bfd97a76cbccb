"""Validation of configuration: frozen pydantic models, with one-line errors that say what is wrong and what to do."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

try:
    from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "experiments need pydantic, which is not installed; run: pip install 'bitspike[train]'"
    ) from None

M = TypeVar("M", bound="Config")
# what other libraries call our fields, without underscores
_ELSEWHERE = {
    **dict.fromkeys(("learningrate", "learnrate", "learnrates", "lrate"), "lr"),
    "batchsize": "batch",
    "numepochs": "epochs",
    "threshold": "theta",
    "numsteps": "steps",
}
_TABLES_ELSEWHERE = {
    **dict.fromkeys(("network", "model", "nn", "neuron", "neurons", "architecture"), "net"),
    **dict.fromkeys(("dataset", "datasets", "dataloader"), "data"),
    **dict.fromkeys(("training", "trainer", "optim", "optimizer", "optimiser", "scheduler", "loss"), "train"),
}
_MOST = 5  # wrong fields that one message may name
_TABLE_TYPES = ("model_type", "model_attributes_type", "dict_type")
# what pydantic's types of errors require, in our words
_REQUIRED = {
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing", "int_parsing_size"), "a whole number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "text in quotes",
    "finite_number": "a finite number",
}


def _a_number(value: object) -> object:
    """Return the value unless it is a truth value or a string: pydantic would take True for 1 and "3" for 3."""
    if isinstance(value, (bool, str)):
        raise ValueError(f"must be a number, but is {shown(value)}{_without_quotes(value)}")
    return value


def _without_quotes(value: object) -> str:
    """Return advice for a number or truth value that was written as a string; "" if it is neither."""
    if not isinstance(value, str) or len(value) > 40:
        return ""
    try:
        plain = _as_toml(value) if math.isfinite(float(value)) else ""
    except ValueError:
        plain = value.lower() if value.lower() in ("true", "false") else ""
    return f"; write it without quotes: {plain.strip()}" if plain else ""


def _as_toml(number: str) -> str:
    """Return a number's text as TOML takes it: with digits on both sides of the point."""
    try:
        tomllib.loads(f"x = {number}")
    except tomllib.TOMLDecodeError:
        return repr(float(number))
    return number


Whole = Annotated[int, BeforeValidator(_a_number)]
Real = Annotated[float, BeforeValidator(_a_number)]
Truth = Annotated[bool, Strict()]
Positive = Annotated[Whole, Field(ge=1, lt=2**31)]  # PyTorch has room for it


class Config(BaseModel):
    """Frozen data; unknown fields are errors. The string below a field is its description, for documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a configuration, in words."""

    key: str  # the field's dotted name; where fields do not go together, the name of their table
    text: str
    table: str = ""  # the table that was meant, where the key names one that does not exist


def validated(model: type[M], values: Mapping[str, Any], where: str | Callable[[Problem], str]) -> M:
    """Return `values` as a `model`; raise a ValueError that says for each wrong field what is required and what came.

    `where` says where the values come from, such as a file's name; or it is a function that says so for one problem.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        found = _problems(model, error.errors())
    texts_by_place: dict[str, list[str]] = {}
    for problem in found[:_MOST]:
        texts_by_place.setdefault(where if isinstance(where, str) else where(problem), []).append(problem.text)
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    raise ValueError("; ".join(f"{place}: {'; '.join(texts)}" for place, texts in texts_by_place.items()) + more)


def problems_of(model: type[Config], values: Mapping[str, Any]) -> list[Problem]:
    """Return one problem for each field in which `values` are not a valid `model`; an empty list if they are valid."""
    try:
        model.model_validate(dict(values))
    except ValidationError as error:
        return _problems(model, error.errors())
    return []


def _problems(model: type[Config], errors: Sequence[Any]) -> list[Problem]:
    """Return one problem for each wrong field.

    pydantic tries all branches of a union and reports an error for each: the branch that came furthest is kept.
    """
    furthest: dict[tuple[Any, ...], Any] = {}
    for error in errors:
        field = tuple(error["loc"][:2])
        rank = (error["type"] in ("value_error", "extra_forbidden"), len(error["loc"]))
        if field not in furthest or rank > furthest[field][0]:
            furthest[field] = (rank, error)
    # texts take time to make, and few of them are shown
    found = [
        _problem(model, error) if i < 4 * _MOST else Problem("", "") for i, (_, error) in enumerate(furthest.values())
    ]
    meant = {problem.table for problem in found} - {""}
    return [
        problem
        for problem in found
        # a table lacks what was written outside of it
        if problem.key not in meant
        and not (problem.key.partition(".")[0] in meant and problem.text == f"{problem.key} is missing")
    ]


def _problem(model: type[Config], error: Any) -> Problem:
    """Return one of pydantic's errors in our words, with the path of a field, without branches of unions."""
    *above, last = error["loc"] or ("",)
    extra = error["type"] == "extra_forbidden"  # then the last part is the user's, whatever it looks like
    path = [str(part) for part in above if not _is_branch(part)]
    path += [str(last)] if extra or not _is_branch(last) else []
    key = ".".join(path)
    if extra and not above and isinstance(error["input"], Mapping) and tables_of(model):
        return Problem(key, unknown_table(key, model), _meant_table(key, model))
    if extra and not above and (table := _table_of(key, model)):
        return Problem(key, f"no field is named {shown(key)} outside of the tables; it belongs below [{table}]", table)
    if extra:
        return Problem(key, unknown_key(key, _siblings(model, path) or known_keys(model)))
    if error["type"] == "missing":
        return Problem(key, f"{key} is missing")
    if error["type"] in _TABLE_TYPES:
        given = error["input"]
        if isinstance(given, list) and given and all(isinstance(each, Mapping) for each in given):
            return Problem(key, f"{key}: must be a table, but is a list of tables; write [{key}], in single brackets")
        return Problem(key, f"{key}: must be a table, but is {shown(given)}")
    if error["type"] == "too_short":
        least = error["ctx"]["min_length"]
        values = "value" if least == 1 else "values"
        return Problem(key, f"{key}: must have at least {least} {values}, but is {shown(error['input'])}")
    if error["type"] == "too_long":
        most = error["ctx"]["max_length"]
        return Problem(key, f"{key}: must have at most {most} values, but is {shown(error['input'])}")
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ").partition(", unable")[0]
    required = message
    if error["type"] != "value_error":
        hint = _without_quotes(error["input"]) if error["type"] == "bool_type" else ""
        wanted = _REQUIRED.get(error["type"], message)
        if error["type"] in ("tuple_type", "list_type"):
            wanted += _such_as(model, path)
        required = f"must be {wanted}, but is {shown(error['input'])}{hint}"
    return Problem(key, f"{key}: {required}" if key and not message.startswith(f"{key}.") else required)


def _such_as(model: type[Config], path: Sequence[str]) -> str:
    """Return the example that a field has, as TOML writes it; an empty text where it has none."""
    inner: list[type[Config]] = [model]
    field = None
    for part in path:
        field = next((each.model_fields[part] for each in inner if part in each.model_fields), None)
        if field is None:
            return ""
        inner = list(_models(field.annotation))
    return f", such as {field.examples[0]}" if field is not None and field.examples else ""


def _table_of(field: str, model: type[Config]) -> str:
    """Return the only table that has a field of this name, or ""."""
    owners = {key.partition(".")[0] for key in known_keys(model) if key.partition(".")[2] == field}
    return owners.pop() if len(owners) == 1 else ""


def _is_branch(part: object) -> bool:
    """Return whether a part of pydantic's path is a branch of a union, and not a field."""
    return isinstance(part, str) and (
        part in ("float", "int", "str") or "[" in part or "-" in part or part[:1].isupper()
    )


def shown(value: object, write: Callable[[Any], str] = repr) -> str:
    """Return a value as an error message shows it: written by `write`, and cut if it is long."""
    try:
        text = value.isoformat() if isinstance(value, (date, time)) else write(value)
    except (ValueError, RecursionError):  # thousands of digits, or of tables in each other
        return f"a very large {'number' if isinstance(value, int) else type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def unknown_key(key: str, known: Sequence[str], what: str = "field") -> str:
    """Return a message that names the known key nearest to a wrong one; it may be a field of another table."""
    field = key.rpartition(".")[2]
    elsewhere = _ELSEWHERE.get(field.lower().replace("_", ""))
    near = [name for name in known if name.rpartition(".")[2] in (field, elsewhere)][:1]
    near = near or difflib.get_close_matches(key, known, 1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
    return f"no {what} is named {shown(key)}{hint}"


def unknown_table(name: str, model: type[Config]) -> str:
    """Return a message that lists a model's tables, and names the one that was probably meant."""
    listed = ", ".join(f"[{table}]" for table in tables_of(model))
    meant = _meant_table(name, model)
    return f"no table is named [{shown(name, str)}]; the tables are {listed}" + (
        f"; did you mean [{meant}]?" if meant else ""
    )


def _meant_table(name: str, model: type[Config]) -> str:
    """Return the table that a wrong name was meant for, or ""."""
    tables = tables_of(model)
    elsewhere = _TABLES_ELSEWHERE.get(name.lower())
    return elsewhere if elsewhere in tables else next(iter(difflib.get_close_matches(name, tables, 1, cutoff=0.5)), "")


def tables_of(model: type[Config]) -> list[str]:
    """Return the names of a model's tables."""
    fields = model.model_fields.items()
    return [name for name, held in fields if get_origin(held.annotation) is dict or any(_models(held.annotation))]


def known_keys(model: type[Config]) -> list[str]:
    """Return the dotted names of all fields that `--set` takes."""
    return list(_known_keys(model))


@cache  # settings are many, and looking through annotations takes a millisecond
def _known_keys(model: type[Config], prefix: str = "") -> tuple[str, ...]:
    keys: list[str] = []
    for name, field in model.model_fields.items():
        inner = list(_models(field.annotation))
        if prefix == "" and inner and field.annotation in inner:  # a table, and not one that may be left out
            keys += _known_keys(inner[0], f"{name}.")
        else:
            keys.append(prefix + name)
    return tuple(keys)


def _siblings(model: type[Config], path: Sequence[str]) -> list[str]:
    """Return all keys of the table within a table that `path` leads to; an empty list if there is none."""
    if len(path) < 3 and path[0] != "paper":
        return []
    inner: list[type[Config]] = [model]
    for part in path[:-1]:
        fields = {name: field for each in inner for name, field in each.model_fields.items()}
        if part not in fields:
            if part.isdecimal():
                continue
            break
        inner = list(_models(fields[part].annotation))
    return [".".join((*path[:-1], name)) for each in inner for name in each.model_fields]


def _models(annotation: Any) -> Iterator[type[Config]]:
    """Yield the models within a type annotation, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation
        return
    for inner in get_args(annotation):
        yield from _models(inner)
