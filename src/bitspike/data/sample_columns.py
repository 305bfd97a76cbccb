"""Labels and groups of the user's own samples: whole numbers or text, which become the numbers that training uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from bitspike.data.array_checks import array, require_flat, require_length, whole
from bitspike.data.array_files import Stored, open_arrays
from bitspike.data.samples import Samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_TEXT = 100


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file: for its samples, `labels [N]` and perhaps `groups [N]`, int64 or text."""

    path: Path
    labels: NDArray[Any]
    groups: NDArray[Any] | None


def read_columns(path: Path) -> Columns:
    """Return the labels and the groups of the samples in a file."""
    with open_arrays(path) as arrays:
        labels = label_column(path, arrays)
        return Columns(path, labels, group_column(path, arrays, len(labels)))


def label_column(path: Path, arrays: Mapping[str, Stored]) -> NDArray[Any]:
    """Return the labels of a file as they are: whole numbers of 0 or more (int64), or text."""
    labels = _numbers_or_text(path, arrays, "labels")
    if not len(labels):
        raise ValueError(f"{path}: labels is empty; at least one sample is required")
    return labels


def group_column(path: Path, arrays: Mapping[str, Stored], samples: int) -> NDArray[Any] | None:
    """Return the group of each sample, such as the person it is from; None if the file does not say."""
    if "groups" not in arrays:
        return None
    groups = _numbers_or_text(path, arrays, "groups")
    require_length(path, "groups", len(groups), samples)
    return groups


def as_numbers(column: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers as they are, and text as its place among the sorted texts of the column."""
    return column if column.dtype.kind == "i" else np.unique(column, return_inverse=True)[1].astype(np.int64)


def _numbers_or_text(path: Path, arrays: Mapping[str, Stored], name: str) -> NDArray[Any]:
    values = array(path, arrays, name)
    require_flat(path, name, values)
    if values.dtype.kind not in "US":
        if values.dtype.kind not in "biuf":
            raise ValueError(f"{path}: {name} must be whole numbers or text, but is {values.dtype}")
        return whole(path, name, values, 0, 2**31 - 1).astype(np.int64)
    try:
        long = _first_long(values)
        if long is not None:
            values = values[long : long + 1]  # the only one that is looked at
        text = _decoded(values)
        found = np.unique(text).tolist()
    except ValueError:  # bytes that are not UTF-8, or numbers that are no characters
        raise ValueError(f"{path}: {name} must be text in UTF-8, but some is not") from None
    for one in found:
        if not one or len(one) > LONGEST_TEXT or not one.isprintable():
            at = int(np.flatnonzero(text == one)[0]) if long is None else long
            raise ValueError(
                f"{path}: {name} must be numbers, or text of 1 to {LONGEST_TEXT} printable characters, but that of "
                f"sample {at} is {one[:40]!a}"
            )
    return text


def _decoded(values: NDArray[Any]) -> NDArray[Any]:
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values.astype(str)


def _first_long(values: NDArray[Any]) -> int | None:
    """Return the place of the first text that is too long, or None.

    Decoding all texts first would take four bytes for each character of the longest, in every entry.
    """
    perhaps = np.flatnonzero(np.char.str_len(values) > LONGEST_TEXT).tolist()  # bytes, or characters
    return next((at for at in perhaps if len(_decoded(values[at : at + 1])[0]) > LONGEST_TEXT), None)


# ---- One numbering for the files of all splits


@dataclass(frozen=True, slots=True)
class Numbering:
    """The numbers that stand for labels and groups: a label's number is its place in `labels`, which are sorted.

    `labels` and `groups` have the values of all files, each once: numbers by value, text by its characters. Groups
    that are numbers already stay as they are. `files` are those that are a group each.
    """

    labels: NDArray[Any]
    groups: NDArray[Any] | None
    files: tuple[Path, ...] = ()

    @classmethod
    def of(
        cls, columns: Mapping[str, Sequence[Columns]], groups_by: Literal["array", "file"] | None = None
    ) -> Numbering:
        """Return the numbering of the files, which are given by the field that names them."""
        files = [each for column in columns.values() for each in column]
        by_file = groups_by == "file"
        if by_file and len(columns["file"]) < 2:
            raise ValueError("data.groups = 'file' makes a group of each file, but data.file is one; give several")
        if groups_by == "array" and columns["file"][0].groups is None:
            raise ValueError(f"data.groups = 'array', but {columns['file'][0].path.name} has no array groups; add it")
        for column in () if by_file else columns.values():
            _require_groups_in_all(column)
        groups = [(each.path, each.groups) for each in files if each.groups is not None]
        labels = _distinct([(each.path, each.labels) for each in files], "labels")
        if by_file:
            return cls(labels, None, tuple(each.path for each in files))
        return cls(labels, _distinct(groups, "groups") if groups else None)

    def applied(self, samples: Samples, columns: Sequence[Columns]) -> Samples:
        """Return the samples, which are those of the files in order, with labels and groups by this numbering."""
        labels, groups = self.numbers(columns)
        return replace(samples, labels=labels, groups=groups)

    def numbers(self, columns: Sequence[Columns]) -> tuple[Tensor, Tensor | None]:
        """Return the numbers of the labels and, if there are any, of the groups of the files, in order."""
        labels = np.searchsorted(self.labels, np.concatenate([each.labels for each in columns]))
        groups: NDArray[Any] | None = None
        if self.files:
            numbers = [self.files.index(each.path) for each in columns]
            groups = np.repeat(numbers, [len(each.labels) for each in columns])
        elif self.groups is not None and columns[0].groups is not None:
            groups = np.concatenate([each.groups for each in columns if each.groups is not None])
            groups = np.searchsorted(self.groups, groups) if self.group_labels else groups
        return _tensor(labels), None if groups is None else _tensor(groups)

    @property
    def group_labels(self) -> tuple[str, ...]:
        """The names of the groups, where they are text or files; else empty."""
        if self.files:
            alike = len({path.name for path in self.files}) < len(set(self.files))
            return tuple(str(path) if alike else path.name for path in self.files)
        return tuple(self.groups.tolist()) if self.groups is not None and self.groups.dtype.kind == "U" else ()

    def class_names(self, given: Sequence[str] | None) -> tuple[str, ...]:
        """Return the `given` names, one for each label; without them the labels as text."""
        labels = tuple(map(str, self.labels.tolist()))
        if given is None:
            return labels
        if len(set(given)) < len(given):
            raise ValueError(f"data.class_names must differ, but {_first_twice(given)!r} is there twice")
        if len(given) != len(labels):
            shown = ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
            raise ValueError(
                f"data.class_names must be {len(labels)}, one for each label ({shown}), but are {len(given)}"
            )
        return tuple(given)


def _first_twice(names: Sequence[str]) -> str:
    return next(name for at, name in enumerate(names) if name in names[:at])


def _require_groups_in_all(columns: Sequence[Columns]) -> None:
    """Raise if some files of a list have groups and others have none."""
    having = [each.path for each in columns if each.groups is not None]
    lacking = [each.path for each in columns if each.groups is None]
    if having and lacking:
        raise ValueError(
            f"data: {having[0].name} has an array groups, but {lacking[0].name} has none; give all of them one, or none"
        )


def _distinct(columns: Sequence[tuple[Path, NDArray[Any]]], name: str) -> NDArray[Any]:
    """Return the values of all files, each once and sorted; raise if some are numbers and some text."""
    kinds = {column.dtype.kind: path for path, column in columns}
    if len(kinds) > 1:
        raise ValueError(
            f"data: {name} must be all numbers or all text, but those of {kinds['i'].name} are numbers and those of "
            f"{kinds['U'].name} text"
        )
    return np.unique(np.concatenate([column for _, column in columns]))


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(values.astype(np.int64))
