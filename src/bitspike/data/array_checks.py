"""Checks of arrays that were read from the user's own files; errors name the file and the array."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitspike.data.array_files import Stored, listed

if TYPE_CHECKING:
    from numpy.typing import NDArray


def array(path: Path, arrays: Mapping[str, Stored], name: str) -> NDArray[Any]:
    """Return the array `name`; raise if the file has none of that name."""
    if name not in arrays:
        raise ValueError(f"{path}: must hold an array {name}, but holds {listed(arrays)}")
    return arrays[name].read()


def require_finite(path: Path | str, name: str, values: NDArray[Any]) -> None:
    """Raise if some of the numbers are NaN or infinite."""
    wrong = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(0, bool)
    if wrong.any():
        first = [int(at) for at in np.argwhere(wrong)[0]]
        raise ValueError(
            f"{path}: {name} must be numbers, but {int(wrong.sum())} of {values.size} are NaN or infinite "
            f"(the first at {first}); leave these out or replace them"
        )


def whole(path: Path | str, name: str, values: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    """Return `values` as whole numbers in low..high; raise for any others."""
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"{path}: {name} must be whole numbers, but is {in_words(values.dtype)}{as_number(name, values)}"
        )
    require_finite(path, name, values)
    if values.dtype.kind == "f" and not np.array_equal(values, np.rint(values)):
        first = values[values != np.rint(values)][0]
        remedy = "write whole numbers, or text" if name in ("labels", "groups") else "round them"
        raise ValueError(
            f"{path}: {name} must be whole numbers, but some are fractions (the first is {first:g}); {remedy}"
        )
    least, most = (values.min().item(), values.max().item()) if values.size else (low, high)
    if not (least >= low and most <= high):
        remedy = "; count from 0" if least < low == 0 else f"; write {name} > 0" if name == "p" else ""
        raise ValueError(
            f"{path}: {name} must be whole numbers in {low}..{high}, but range over {least}..{most}{remedy}"
        )
    if values.dtype.kind == "f":
        return values.astype(np.int64)
    return values.astype(np.uint8) if values.dtype.kind == "b" else values.astype(values.dtype.newbyteorder("="))


def in_words(dtype: np.dtype[Any]) -> str:
    """Return the type of an array's entries as a person says it."""
    return {"U": "text", "S": "text", "O": "Python objects"}.get(dtype.kind, str(dtype))


def as_number(name: str, values: NDArray[Any]) -> str:
    """Return advice for numbers that were written as text; an empty text for anything else."""
    try:
        numbers = values.ravel()[:100].astype(np.float64) if values.dtype.kind in "US" else np.zeros(0)
    except ValueError:
        return "; give numbers"
    kind = "'int64'" if np.array_equal(numbers, np.rint(numbers)) else "'float64'"
    return f"; write {name}.astype({kind})" if len(numbers) else ""


def require_flat(path: Path | str, name: str, values: NDArray[Any]) -> None:
    """Raise unless the array has one dimension."""
    if values.ndim == 1:
        return
    remedy = ""
    if name == "labels" and values.ndim == 2 and values.shape[1] > 1:
        remedy = "; write labels.argmax(1) if each row marks its class"
    elif name in ("t", "t_us", "x", "y", "p") and values.ndim == 2:
        remedy = f"; write {name}.ravel(), and in offsets where each sample begins"
    raise ValueError(f"{path}: {name} must have one dimension, but has the shape {list(values.shape)}{remedy}")


def require_length(path: Path, name: str, length: int, required: int, *, of: str = "labels") -> None:
    """Raise unless the array has as many entries as `of` has."""
    if length != required:
        each = "event" if of == "t" else "sample"
        raise ValueError(
            f"{path}: {name} must be as many as {of}, {required}, but there are {length}; write one for each {each}"
        )
