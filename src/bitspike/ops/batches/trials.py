"""Work of an iteration of several trials beside its networks, with one kernel for all trials.

Arguments named after a trial's tensor are tables of addresses (ops/trials.py); their first one decides the device.
"""

from __future__ import annotations

import torch
from torch import Tensor
from triton import next_power_of_2

from bitspike.ops.batches import kernels
from bitspike.ops.batches.triton import _EVENTS
from bitspike.ops.launch import on


def next_lines(plans: tuple[Tensor, Tensor, Tensor], width: int) -> None:
    """Load the line at the cursor of each trial's plan, `width` words of 64 bits, and move the cursor on.

    `plans` are the addresses of the plans' tables, cursors and current lines.
    """
    tables, cursors, lines = plans
    with on(tables):
        kernels._next_line_kernel[(len(tables),)](tables, cursors, lines, width, BLOCK=256)


def scatter_trials(
    index: Tensor,
    count: Tensor,
    starts: Tensor,
    lengths: Tensor,
    labels: Tensor,
    rows: Tensor,
    batch: int,
    steps: int,
    size: int,
    longest: int,
) -> tuple[Tensor, Tensor]:
    """Return counts `[k, steps, batch, size]` uint8 and labels `[k, batch]`, of the samples in each trial's `rows`."""
    trials = len(rows)
    out = torch.zeros(trials, steps, batch, size, dtype=torch.uint8, device=index.device)
    chosen = torch.empty(trials, batch, dtype=torch.int64, device=index.device)
    with on(index):
        kernels._scatter_kernel[(trials * batch, max(-(-longest // _EVENTS), 1))](
            index, count, starts, lengths, rows, out, labels, chosen, batch, size, size, steps, trials,
            MANY=True, BLOCK=_EVENTS,
        )  # fmt: skip
    return out, chosen


def note_first_bad_trials(first: Tensor, norms: Tensor, step: Tensor) -> None:
    """first[i] = step where norms[trial, i] is not finite and first[i] is still -1, in each trial."""
    trials, size = norms.shape
    with on(first):
        kernels._first_bad_kernel[(trials,)](
            norms, first, step, SIZE=size, MANY=True, BLOCK=next_power_of_2(size), num_warps=1
        )


def tally_trials(sums: Tensor, loss: Tensor, rights: Tensor) -> None:
    """sums[0..2] (float64) += loss[trial] * samples, right samples, samples, in each trial; rights are `[k, B]`."""
    with on(sums):
        kernels._tally_kernel[(len(rights),)](sums, loss, rights, rights.shape[1], MANY=True, BLOCK=256)
