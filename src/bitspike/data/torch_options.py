"""Checks of the options of `from_torch` and `dataset_from_torch`: each error is one line that names the option."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitspike.data.binning import MOST_COUNT

MOST_SEED = 2**32 - 1
SHORTEST_MS = 0.001  # times are whole microseconds


def whole_number(where: str, name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return an option that must be a whole number of at least `low`, and of at most `high` if that is given."""
    try:
        number = low - 1 if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = low - 1
    if number < low or (high is not None and number > high):
        wanted = f"of at least {low}" if high is None else f"in {low}..{high}"
        raise ValueError(f"{where}: {name} must be a whole number {wanted}, but is {value!r:.60}")
    return number


def in_microseconds(name: str, value: Any) -> int | None:
    """Return a time in milliseconds as whole microseconds; None stays None."""
    if value is None:
        return None
    if not isinstance(value, Real) or isinstance(value, bool) or not SHORTEST_MS <= float(value) < math.inf:
        raise ValueError(
            f"from_torch: {name} must be a number of milliseconds, at least {SHORTEST_MS}, but is {value!r:.60}"
        )
    return round(float(value) * 1000)


def sensor_option(value: Any) -> tuple[int, ...] | None:
    """Return the given size of a sensor as one or two whole numbers; None stays None."""
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) not in (1, 2):
        raise ValueError(f"from_torch: sensor must be (height, width) or (units,), but is {value!r:.60}")
    return tuple(whole_number("from_torch", "each number in sensor", each, 1) for each in value)


def clip_option(value: Any) -> int | None:
    """Return the most events that a bin counts; None stays None."""
    return None if value is None else whole_number("from_torch", "clip", value, 1, MOST_COUNT)


def truth_option(name: str, value: Any) -> bool | None:
    """Return an option that must be true or false; None stays None."""
    if value is not None and not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"from_torch: {name} must be True or False, but is {value!r:.60}")
    return None if value is None else bool(value)


def numbered_groups(groups: Any, samples: int) -> tuple[Tensor | None, tuple[str, ...]]:
    """Return the group of each sample as a number, and the names of the groups where these are text.

    A text's number is its place among the sorted texts.

    Examples:
        >>> from bitspike.data.torch_options import numbered_groups
        >>> numbered_groups(["bea", "ann", "bea"], 3)
        (tensor([1, 0, 1]), ('ann', 'bea'))
        >>> numbered_groups([7, 9, 7], 3)
        (tensor([7, 9, 7]), ())
    """
    if groups is None:
        return None, ()
    # of a list every entry is looked at: NumPy would make text of the 1 in ["a", 1]
    values = groups.numpy(force=True) if isinstance(groups, Tensor) else groups
    values = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    if values.shape != (samples,):
        raise ValueError(
            f"from_torch: groups must be one number or text a sample, {samples}, but are {list(values.shape)}"
        )
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind == "U" or all(isinstance(each, str) for each in values):
        names, numbers = np.unique(values.astype(str), return_inverse=True)
        return torch.from_numpy(numbers.astype(np.int64)), tuple(names.tolist())
    try:
        return torch.tensor([operator.index(each) for each in values], dtype=torch.int64, device="cpu"), ()
    except (TypeError, ValueError, RuntimeError, OverflowError):  # no whole number, or one of more than 64 bits
        raise ValueError(
            f"from_torch: groups must be whole numbers or text, one kind for all samples, but are {_few(values)}"
        ) from None


def _few(values: np.ndarray[Any, Any]) -> str:
    return ", ".join(f"{each!r:.30}" for each in values[:3].tolist()) + (", ..." if len(values) > 3 else "")


# ---- Options of a dataset


def require_name(name: Any) -> None:
    """Raise unless the name of a dataset is a text, or None."""
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ValueError(f"dataset_from_torch: name must be a text that is not empty, but is {name!r:.60}")


def require_class_names(names: Sequence[str] | None) -> None:
    """Raise unless the names of classes are a list of different texts, or None."""
    if names is None:
        return
    if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) and each.strip() for each in names):
        raise ValueError(f"dataset_from_torch: class_names must be a list of texts, but are {names!r:.60}")
    if twice := [each for at, each in enumerate(names) if each in names[:at]]:
        raise ValueError(f"dataset_from_torch: class_names must be different, but {twice[0]!r:.60} is there twice")


def held_out_options(test: Any, share: Any, seed: Any) -> tuple[float, int]:
    """Return the share of the samples that is held out and the seed that draws them, 0.2 and 0 unless given."""
    for name, value in (("test_share", share), ("split_seed", seed)):
        if test is not None and value is not None:
            raise ValueError(f"dataset_from_torch: {name} has no meaning beside test; leave one of them out")
    share = 0.2 if share is None else share
    if not isinstance(share, Real) or isinstance(share, bool) or not 0 < float(share) < 1:
        raise ValueError(f"dataset_from_torch: test_share must be a number between 0 and 1, but is {share!r:.60}")
    seed = whole_number("dataset_from_torch", "split_seed", 0 if seed is None else seed, 0, MOST_SEED)
    return float(share), seed
