"""Where search spaces come from: `presets/search.toml`, or the table `[search]` of a user's experiment file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from bitspike.config import known_keys, shown, validated
from bitspike.data.toml import read_toml
from bitspike.experiments.presets import preset_names
from bitspike.experiments.recipes import BASES
from bitspike.experiments.schema import Experiment
from bitspike.experiments.sweep.parameter import Parameter

EXAMPLE = "train.lr = { low = 1e-4, high = 1e-1, log = true }"


def search_tables(source: str, spec: Experiment) -> dict[str, Any]:
    """Return the tables of a space by parameter, not yet checked; `source` is a preset or a file, `spec` what it gives.

    A file without a table [search] that takes a base recipe gets that recipe's space, less the fields that it gives.
    """
    if source in preset_names() and not Path(source).is_file():
        return preset_tables(source)
    held = read_toml(Path(source)).get("search")
    if held is not None:
        return _by_name(flat(held, "", f"{source}: [search]"), f"{source}: [search]")
    base = next((base for base in BASES for text in spec.sources.values() if text.startswith(f"{base}:")), None)
    if base is None:
        raise ValueError(
            f"{source} has no table [search], so that nothing is searched; add one with lines such as {EXAMPLE}"
        )
    recipes = {key for key, text in spec.sources.items() if text.startswith(f"{base}:")}
    return {name: table for name, table in preset_tables(base).items() if name in recipes}


def _by_name(tables: Iterator[tuple[str, dict[str, Any]]], where: str) -> dict[str, Any]:
    """Return the tables by name; raise if one is given twice, with quotes and without, which is two names in TOML."""
    found: dict[str, Any] = {}
    for name, table in tables:
        if name in found:
            raise ValueError(f"{where} {name} is given twice, once as a name in quotes; leave one of them out")
        found[name] = table
    return found


def preset_tables(name: str) -> dict[str, Any]:
    """Return the tables of a preset's space by parameter, with a `source` each."""
    held = _spaces()
    if name not in held["presets"]:
        why = held["none"].get(name.partition("/")[0])
        write = f"write one: save bitspike preset show {name} in a file, and add a table [search]"
        raise ValueError(f"{name} has no search space: {why or write}")
    tables: dict[str, Any] = {}
    for part in held["presets"][name]:
        tables |= dict(flat(held["parts"][part], "", part))
    return tables


def preset_parameters(name: str) -> dict[str, Parameter]:
    """Return the parameters of a preset's space."""
    return {key: validated(Parameter, table, f"{name}: {key}") for key, table in preset_tables(name).items()}


def searchable() -> list[str]:
    """Return the names of the presets that have a space."""
    return [name for name in _spaces()["presets"] if name not in BASES]


def search_toml(parameters: Mapping[str, Parameter]) -> str:
    """Return the table [search] of an experiment file, with a comment for each parameter that has a source.

    Examples:
        >>> from bitspike.experiments.sweep.parameter import Parameter
        >>> from bitspike.experiments.sweep.space_files import search_toml
        >>> print(search_toml({"train.lr": Parameter(low=1e-4, high=0.1, log=True, source="ours")}))
        [search]
        train.lr = { low = 0.0001, high = 0.1, log = true }  # ours
    """
    lines = ["[search]"]
    for name, parameter in parameters.items():
        comment = f"  # {parameter.source}" if parameter.source else ""
        lines.append(f"{name} = {_inline(parameter.canonical())}{comment}")
    return "\n".join(lines)


def _inline(value: Any) -> str:
    """Return a value as TOML writes it in one line; names of fields in quotes."""
    if not isinstance(value, Mapping):
        return json.dumps(value)
    names = {name: json.dumps(name) if "." in name else name for name in value}
    return f"{{ {', '.join(f'{names[name]} = {_inline(held)}' for name, held in value.items())} }}"


@cache
def _spaces() -> dict[str, Any]:
    text = resources.files("bitspike.experiments").joinpath("presets", "search.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def flat(held: object, path: str, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each parameter's dotted name and table.

    TOML reads `net.beta = {...}` as tables in each other, and `"net.beta" = {...}` as one name; both are taken.
    """
    if not isinstance(held, Mapping):
        field = path or "it"
        raise ValueError(f"{where}: {field} must be a table such as {EXAMPLE}, but is {shown(held)}")
    if path and _is_parameter(held, path):
        yield path, dict(held)
        return
    for name, inner in held.items():
        yield from flat(inner, f"{path}.{name}" if path else name, where)


def _is_parameter(held: Mapping[str, Any], path: str) -> bool:
    """Return whether a table is a parameter's: it holds values, and not only the tables of other parameters."""
    plain = [name for name, value in held.items() if not isinstance(value, Mapping)]
    if set(plain) & set(Parameter.model_fields):
        return True
    in_field = any(path == key or path.startswith(f"{key}.") for key in known_keys(Experiment))
    return in_field and (not held or len(plain) == len(held))
