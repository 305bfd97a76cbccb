"""Access to single samples, as a DataLoader, a Subset and a plain loop need it."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, overload

import torch
import torch.utils.data
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map


class ImageSample(NamedTuple):
    """One image: `input [C, H, W]` float32, and its class."""

    input: Tensor
    label: int


class SequenceSample(NamedTuple):
    """One sequence: `input [T, ...]` float32, and its class."""

    input: Tensor
    label: int


def time_first(batch: Sequence[tuple[Tensor, Any]]) -> tuple[Tensor, Any]:
    """Join sequences `[T, ...]` and their labels to `[T, B, ...]` and `[B]`: a DataLoader's `collate_fn`.

    Samples of `Images` give `[B, C, H, W]`. A DataLoader collates `Images` and `Frames` so by itself; a dataset of
    one's own with sequences needs it, as PyTorch's default puts the batch first.

    Examples:
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> import bitspike
        >>> sequences = TensorDataset(torch.zeros(6, 50, 20), torch.arange(6))  # [T, N] each
        >>> loader = DataLoader(sequences, batch_size=3, collate_fn=bitspike.data.time_first)
        >>> x, labels = next(iter(loader))
        >>> x.shape, labels.tolist()
        (torch.Size([50, 3, 20]), [0, 1, 2])
    """
    inputs, labels = zip(*batch, strict=True)
    shapes = sorted({tuple(each.shape) for each in inputs})
    if len(shapes) > 1:
        raise ValueError(f"time_first: the inputs of a batch must have one shape, but have {shapes[:4]}")
    together = torch.stack(inputs, dim=0 if isinstance(batch[0], ImageSample) else 1)
    return together, torch.utils.data.default_collate(list(labels))


def _collated(batch: Sequence[tuple[Tensor, Any]], *, collate_fn_map: object = None) -> tuple[Tensor, Any]:
    return time_first(batch)


# How PyTorch's default collate learns a type. Plain tuples become [B, T, ...], which a network reads as [T, B, ...].
default_collate_fn_map.update({ImageSample: _collated, SequenceSample: _collated})


class Indexed(torch.utils.data.Dataset[tuple[Tensor, int]], ABC):
    """Samples that a DataLoader, a Subset and a plain loop can take."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def select(self, rows: Tensor) -> Self: ...

    @abstractmethod
    def _sample(self, row: Tensor) -> tuple[Tensor, int]: ...

    @overload
    def __getitem__(self, at: SupportsIndex) -> tuple[Tensor, int]: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: SupportsIndex | slice) -> tuple[Tensor, int] | Self:
        """Return (input, label) of sample `at`, where -1 is the last; for a slice, the samples in it."""
        if isinstance(at, slice):
            return self.select(_rows(at, len(self)))
        try:
            row = operator.index(at)
        except TypeError:
            raise TypeError(
                f"samples[i]: i must be a whole number or a slice, but is {type(at).__name__}; "
                "select(rows) gives several samples, batch(rows) a batch of them"
            ) from None
        if not -len(self) <= row < len(self):
            raise IndexError(f"samples[i]: i must be in {-len(self)}..{len(self) - 1}, but is {row}")
        return self._sample(torch.tensor([row % len(self)], device="cpu"))

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return (self[row] for row in range(len(self)))


def _rows(at: slice, length: int) -> Tensor:
    return torch.tensor(range(*at.indices(length)), dtype=torch.int64, device="cpu")


def groups_on(groups: Tensor | None, device: torch.device | str) -> Tensor | None:
    """Return the groups on `device`, if there are any."""
    return None if groups is None else groups.to(device)


def groups_of(groups: Tensor | None, rows: Tensor) -> Tensor | None:
    """Return the groups of the samples `rows`, if there are any."""
    return None if groups is None else groups[rows.to(groups.device)]


def labels_in_words(labels: Tensor) -> str:
    """Return the smallest and the largest label as text."""
    return f"labels {int(labels.min())} to {int(labels.max())}" if len(labels) else "no labels"
