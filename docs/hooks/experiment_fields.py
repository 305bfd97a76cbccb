"""The page "Fields of an experiment", made from the schema: every field with its type, default and meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from markdown_text import code, table

HEAD = """# Fields of an experiment

An experiment is a TOML file. `bitspike preset show NAME > mine.toml` writes a complete one. Any field
can be set on the command line by its dotted name: `bitspike train mnist/quick --set train.lr=1e-3`.
`--set train.patience=none` takes a value away. [Training](training.md) and [Data](data.md) explain how
fields act together.

A field whose default is *required* must be given. A field that is *not set* is left out of the file.

"""
TABLES = {"data": "`[data]`", "net": "`[net]`", "train": "`[train]`", "paper": "`[paper]`"}
NAMES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}
BOUNDS = {
    ">=": ("ge", "minimum"),
    ">": ("gt", "exclusiveMinimum"),
    "<=": ("le", "maximum"),
    "<": ("lt", "exclusiveMaximum"),
}
ROOM = 10**6  # limits beyond this are those of number formats, and say nothing to a reader


def fields_page() -> str:
    """Return the page."""
    from bitspike.experiments.schema import Experiment

    schema = Experiment.model_json_schema()
    inner = schema["$defs"]
    plain = {name: field for name, field in schema["properties"].items() if name not in TABLES}
    parts = [HEAD, "## Top of the file\n\n", _table(plain, schema.get("required", []), "", inner)]
    for name, title in TABLES.items():
        parts.append(_section(title, f"{name}.", _referred(schema["properties"][name], inner), inner))
    parts.append(_section("A threshold that is annealed", "net.theta.", inner["Rise"], inner))
    parts.append(_section("Learning rates of kinds of parameters", "train.rates.", inner["Rates"], inner))
    return "".join(parts)


def _section(title: str, prefix: str, model: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    about = " ".join(model.get("description", "").split())
    return f"\n## {title}\n\n{about}\n\n" + _table(model["properties"], model.get("required", []), prefix, inner)


def _table(fields: Mapping[str, Any], required: list[str], prefix: str, inner: Mapping[str, Any]) -> str:
    rows = [
        [
            code(prefix + name),
            _kind(field, inner),
            "*required*" if name in required else _default(field),
            field.get("description", ""),
        ]
        for name, field in fields.items()
    ]
    return table(["field", "type", "default", "meaning"], rows)


def _referred(field: Mapping[str, Any], inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table that a field holds."""
    choices = [field, *field.get("anyOf", []), *field.get("allOf", [])]
    name = next(choice["$ref"] for choice in choices if "$ref" in choice)
    found: Mapping[str, Any] = inner[name.rpartition("/")[2]]
    return found


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    return "*not set*" if value is None else code(json.dumps(value))


def _kind(field: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    """Return a field's type in words."""
    if "$ref" in field:
        return "a table `{" + ", ".join(_referred(field, inner)["properties"]) + "}`"
    if "anyOf" in field:
        return ", or ".join(_kind(choice, inner) for choice in field["anyOf"] if choice.get("type") != "null")
    if "enum" in field:
        return ", ".join(code(json.dumps(value)) for value in field["enum"])
    if "const" in field:
        return code(json.dumps(field["const"]))
    if field["type"] == "array" and "prefixItems" in field:
        return f"a list of {len(field['prefixItems'])}: " + ", ".join(
            _kind(item, inner) for item in field["prefixItems"]
        )
    if field["type"] == "array":
        return f"a list of: {_kind(field['items'], inner)}"
    if field["type"] == "object":
        return "a table of text"
    if field.get("format") == "path":
        return "path"
    return NAMES[field["type"]] + _bounds(field)


def _bounds(field: Mapping[str, Any]) -> str:
    """Return the limits of a number, such as " >= 0, < 1"."""
    found = {sign: field[key] for sign, keys in BOUNDS.items() for key in keys if key in field}
    said = [f"{sign} {limit:g}" for sign, limit in found.items() if abs(limit) < ROOM]
    return " " + code(", ".join(said)) if said else ""
