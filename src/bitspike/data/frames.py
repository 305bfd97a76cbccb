"""Binned events as samples: a whole set is in the memory of the training device, and batches are made there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bitspike.data.indexing import Indexed, SequenceSample, groups_of, groups_on, labels_in_words
from bitspike.data.tally import Tally
from bitspike.ops.available import fused_on_gpu
from bitspike.ops.batches import c as batches_c
from bitspike.ops.batches.bins import Bins
from bitspike.ops.batches.event_jitter import EventJitter
from bitspike.ops.batches.scatter import put

if TYPE_CHECKING:
    from bitspike.data.binning import EventRule


@dataclass(frozen=True, slots=True)
class Frames(Indexed):
    """Binned events, stored only where a bin holds some: `index [E]` int32, `count [E]` uint8, sample after sample.

    A bin's index within its sample is `t * prod(shape) + position`; no bin occurs twice in a sample. Sample i holds the
    `lengths[i]` bins from `starts[i]` on, so that selecting samples moves no events. `groups [N]` int64 says which
    samples belong together, such as those of one speaker; None where that is not known. `tally` counts the events that
    are in no bin, and `rule` says how they were binned; both are None where the samples were not binned here.

    Examples:
        >>> import bitspike
        >>> samples = bitspike.data.load("coding").train
        >>> samples
        Frames(1 samples of (100,) in 100 steps, labels 75 to 75)
        >>> x, label = samples[0]
        >>> x.shape
        torch.Size([100, 100])
    """

    index: Tensor
    count: Tensor
    starts: Tensor
    lengths: Tensor
    labels: Tensor
    steps: int
    shape: tuple[int, ...]
    longest: int
    tally: Tally | None = None
    groups: Tensor | None = None
    rule: EventRule | None = None

    @property
    def left_out(self) -> float:
        """The share of the events that are in no bin; 0 where it is not known."""
        return 0.0 if self.tally is None else self.tally.left_out

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        width = "" if self.tally is None else f" of {self.tally.bin_us / 1000:g} ms"
        return (
            f"Frames({len(self)} samples of {self.shape} in {self.steps} steps{width}, {labels_in_words(self.labels)})"
        )

    def figures(self) -> dict[str, float]:
        """Return figures for `bitspike data info`, other than shapes."""
        # samples of another split may lie between these
        counts = [self.count[a : a + n] for a, n in zip(self.starts.tolist(), self.lengths.tolist(), strict=True) if n]
        own = torch.cat(counts) if counts else self.count[:0]
        return {
            "bytes": own.numel() * 5,
            "events_per_sample": round(float(own.sum(dtype=torch.int64)) / max(len(self.starts), 1), 1),
            "largest_count": int(own.max()) if counts else 0,
            "events_left_out": round(self.left_out, 4),
        }

    def to(self, device: torch.device | str) -> Frames:
        moved = {name: getattr(self, name).to(device) for name in ("index", "count", "starts", "lengths", "labels")}
        return replace(self, **moved, groups=groups_on(self.groups, device))

    def select(self, rows: Tensor) -> Frames:
        """Return the samples `rows` (whole numbers, or one truth value a sample), in that order."""
        rows = rows.to(self.labels.device)
        chosen = {name: getattr(self, name)[rows] for name in ("starts", "lengths", "labels")}
        tally = None if self.tally is None else self.tally.select(rows)
        return replace(self, **chosen, groups=groups_of(self.groups, rows), tally=tally)

    @property
    def bins(self) -> Bins:
        """The stored bins, as batches are made from them."""
        return Bins(self.index, self.count, self.starts, self.lengths, self.steps, self.shape, self.longest)

    def _sample(self, row: Tensor) -> SequenceSample:
        counts, labels = self.batch(row.to(self.labels.device))
        return SequenceSample(counts[:, 0].float(), int(labels))

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return counts `[T, B, *shape]` and labels `[B]` on the samples' device: float32 on a CPU, uint8 on a GPU."""
        counts = self._copied(rows) if rows.device.type == "cpu" else self._gathered(rows)
        return counts.view(self.steps, len(rows), *self.shape), self.labels[rows]

    def jittered_batch(
        self, rows: Tensor, jitter: EventJitter, key: Tensor, first_row: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Return a batch, moved and stretched as drawn from `key` (an int64) and the place in the batch."""
        bins = self.bins
        if fused_on_gpu(rows.device):
            from bitspike.ops.batches.triton import jittered_counts
        elif batches_c.usable(bins):
            jittered_counts = batches_c.jittered_counts
        else:
            from bitspike.ops.batches.event_jitter import jittered_counts
        if rows.device.type == "cpu":  # less work, and nothing to wait for
            bins = replace(bins, longest=int(self.lengths[rows].max()) if len(rows) else 0)
        counts = jittered_counts(bins, rows, jitter, key, first_row).view(self.steps, len(rows), *self.shape)
        return (counts.float() if rows.device.type == "cpu" else counts), self.labels[rows]

    def _copied(self, rows: Tensor) -> Tensor:
        """Make a batch sample by sample: the least work on a CPU, where a call costs little."""
        size, batch = self.bins.size, len(rows)
        out = torch.zeros(self.steps * batch * size, dtype=torch.float32, device="cpu")
        for row, (start, length) in enumerate(
            zip(self.starts[rows].tolist(), self.lengths[rows].tolist(), strict=True)
        ):
            index = self.index[start : start + length]
            target = index.long()
            if batch > 1:
                target.add_(index // size, alpha=(batch - 1) * size).add_(row * size)
            put(out, target, self.count[start : start + length].float())
        return out

    def _gathered(self, rows: Tensor) -> Tensor:
        """Make a batch of all samples at once, in uint8: for a GPU, so that the host need not wait."""
        if fused_on_gpu(rows.device):
            from bitspike.ops.batches.triton import scatter_counts
        else:
            from bitspike.ops.batches.scatter import scatter_counts
        return scatter_counts(self.bins, rows)


def frames_from_dense(values: Tensor, labels: Tensor, groups: Tensor | None = None) -> Frames:
    """Return `values [N, T, ...]`, whole numbers 0..255, as Frames."""
    flat = values.flatten(1)
    row, index = flat.nonzero(as_tuple=True)
    lengths = torch.bincount(row, minlength=len(flat))
    count = flat[row, index].to(torch.uint8)
    return frames(index.int(), count, lengths, labels, values.shape[1], values.shape[2:], groups=groups)


def frames(
    index: Tensor,
    count: Tensor,
    lengths: Tensor,
    labels: Tensor,
    steps: int,
    shape: tuple[int, ...] | torch.Size,
    tally: Tally | None = None,
    groups: Tensor | None = None,
    rule: EventRule | None = None,
) -> Frames:
    """Return Frames whose samples lie one after another, `lengths[i]` bins each."""
    if not index.numel():  # batches of silent samples need one element to point at
        index, count = (torch.zeros(1, dtype=kind, device=lengths.device) for kind in (torch.int32, torch.uint8))
    starts = lengths.cumsum(0) - lengths
    longest = int(lengths.max()) if len(lengths) else 0
    return Frames(index, count, starts, lengths, labels.long(), int(steps), tuple(shape), longest, tally, groups, rule)
