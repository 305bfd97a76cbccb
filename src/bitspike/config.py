"""How configuration is validated: frozen pydantic models whose errors are one line a field, with the nearest key."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args

try:
    from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "experiments need pydantic, which is not installed; run: pip install 'bitspike[train]'"
    ) from None

M = TypeVar("M", bound="Config")
# what other libraries call them
_ELSEWHERE = {
    "learning_rate": "lr",
    "batch_size": "batch",
    "num_epochs": "epochs",
    "threshold": "theta",
    "num_steps": "steps",
}
_TABLE_TYPES = ("model_type", "model_attributes_type", "dict_type")


def _a_number(value: object) -> object:
    """pydantic would take True for 1 and "3" for 3."""
    if isinstance(value, (bool, str)):
        raise ValueError(f"must be a valid number, but is {_shown(value)}")
    return value


Whole = Annotated[int, BeforeValidator(_a_number)]
Real = Annotated[float, BeforeValidator(_a_number)]
Truth = Annotated[bool, Strict()]
Positive = Annotated[Whole, Field(ge=1, lt=2**31)]  # PyTorch has room for it


class Config(BaseModel):
    """Frozen data; unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def validated(model: type[M], values: Mapping[str, Any], where: str) -> M:
    """`values` as a `model`, or a ValueError that says for each wrong field what is required and what came."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ValueError(f"{where}: " + "; ".join(_problems(model, error.errors()))) from None


def _problems(model: type[Config], errors: Sequence[Any]) -> list[str]:
    """One a field: of the branches of a union that were tried, the one that came furthest."""
    furthest: dict[tuple[Any, ...], Any] = {}
    for error in errors:
        field = tuple(error["loc"][:2])
        rank = (error["type"] in ("value_error", "extra_forbidden"), len(error["loc"]))
        if field not in furthest or rank > furthest[field][0]:
            furthest[field] = (rank, error)
    return [_problem(model, error) for _, error in furthest.values()]


def _problem(model: type[Config], error: Any) -> str:
    # pydantic puts the branch of a union it tried into the path; the user knows only the fields
    *above, last = error["loc"] or ("",)
    extra = error["type"] == "extra_forbidden"  # then the last part is the user's, whatever it looks like
    path = [str(part) for part in above if not _is_branch(part)]
    path += [str(last)] if extra or not _is_branch(last) else []
    key = ".".join(path)
    if extra:
        return unknown_key(key, _siblings(model, path) or known_keys(model))
    if error["type"] == "missing":
        return f"{key} is missing"
    if error["type"] in _TABLE_TYPES:
        return f"{key}: must be a table, but is {_shown(error['input'])}"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ").partition(", unable")[0]
    required = message if error["type"] == "value_error" else f"must be {message}, but is {_shown(error['input'])}"
    return f"{key}: {required}" if key and not message.startswith(f"{key}.") else required


def _is_branch(part: object) -> bool:
    return isinstance(part, str) and (
        part in ("float", "int", "str") or "[" in part or "-" in part or part[:1].isupper()
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def unknown_key(key: str, known: Sequence[str], what: str = "field") -> str:
    """A message that names the nearest known key; that of another table, if its field is named so."""
    field = key.rpartition(".")[2]
    near = [name for name in known if name.rpartition(".")[2] in (field, _ELSEWHERE.get(field))][:1]
    near = near or difflib.get_close_matches(key, known, 1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
    return f"no {what} is named {key!r}{hint}"


def known_keys(model: type[Config], prefix: str = "") -> list[str]:
    """The dotted names of all fields that --set takes."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        inner = list(_models(field.annotation))
        if prefix == "" and inner and field.annotation in inner:  # a table, and not one that may be left out
            keys += known_keys(inner[0], f"{name}.")
        else:
            keys.append(prefix + name)
    return keys


def _siblings(model: type[Config], path: Sequence[str]) -> list[str]:
    """The keys beside `path`, where it leads into a table within a table."""
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
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation
        return
    for inner in get_args(annotation):
        yield from _models(inner)
