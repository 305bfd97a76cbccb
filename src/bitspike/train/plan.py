"""The plan of an epoch: all that its iterations need from the host, sent to the device at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Plan:
    """A table on the device with one line of 64-bit words for each iteration, and views of the current line.

    `next()` fetches the line at the cursor and moves on, all on the device: in a CUDA graph each replay takes the next.
    The views stay the same memory for good: `rows [batch]` of the samples, `key` of dropout, `step`, `rates` (float32,
    as torch's fused optimizers read them, one for each group of parameters; `lr` is the first) and `values`, a number
    for each of `targets`: thresholds, and numbers of tricks.
    """

    def __init__(
        self, iterations: int, batch: int, targets: Sequence[Tensor], device: torch.device, rates: int = 1
    ) -> None:
        self.iterations, self.batch = iterations, batch
        self._values_from = batch + 2 + rates
        self.targets = list(targets)
        self._dtype = self.targets[0].dtype
        width = self._values_from + len(self.targets)
        self._table = torch.zeros(iterations, width, dtype=torch.int64, device=device)
        self._cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self._line = torch.zeros(1, width, dtype=torch.int64, device=device)
        rows, keys, steps, each_rate, values = self._columns(self._line)
        self.rows, self.key, self.step = rows[0], keys[0], steps[0]
        self.rates = list(each_rate[0].unbind())
        self.lr = self.rates[0]
        self.values = list(values[0].unbind())

    def _columns(self, table: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        rows, key, step = table[:, : self.batch], table[:, self.batch], table[:, self.batch + 1]
        rates = _as(table[:, self.batch + 2 : self._values_from], torch.float32)
        return rows, key, step, rates, _as(table[:, self._values_from :], self._dtype)

    def write(
        self,
        rows: Tensor,
        steps: Sequence[int],
        rates: Sequence[Sequence[float]],
        values: Sequence[Sequence[float]],
        keys: Sequence[int] | None = None,
    ) -> None:
        """Send an epoch: all its rows in order; for each iteration a step, rates, key, and numbers to set after it."""
        table = torch.zeros_like(self._table, device="cpu")
        padded = rows.new_zeros(self.iterations * self.batch)
        padded[: len(rows)] = rows
        places = self._columns(table)
        places[0].copy_(padded.view(self.iterations, self.batch))
        if keys is not None:
            places[1].copy_(torch.tensor(keys, device="cpu"))
        places[2].copy_(torch.tensor(steps, device="cpu"))
        places[3].copy_(torch.tensor(rates, dtype=torch.float64, device="cpu"))
        places[4].copy_(torch.tensor(values, dtype=torch.float64, device="cpu"))
        self._table.copy_(table)

    def seek(self, iteration: int) -> None:
        """Move the cursor to the line of `iteration`."""
        self._cursor.fill_(iteration)

    def next(self) -> None:
        """Load the line at the cursor, and move the cursor to the next one."""
        torch.index_select(self._table, 0, self._cursor, out=self._line)
        self._cursor.add_(1)

    def write_values(self) -> None:
        """Copy the line's numbers into their tensors: thresholds in the network, and what tricks asked for."""
        torch._foreach_copy_(self.targets, self.values)


def _as(words: Tensor, dtype: torch.dtype) -> Tensor:
    """Return views of the numbers in 64-bit words `[..., N]`; a smaller number takes a word's first bytes."""
    return words.view(dtype)[..., :: 8 // dtype.itemsize]
