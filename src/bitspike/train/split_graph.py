"""Several CUDA graphs in a row, for a step in which processes add up tensors: each sum lies between two graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from bitspike.train.capture import begin_capture, end_capture, recording_on
from bitspike.train.exchange import by_host, host_copy, noted_by, through_host

T = TypeVar("T")


class SplitGraph:
    """A step recorded on `stream` in parts; wherever it adds a tensor up over processes, a part ends.

    Nothing is added up while it records, so no process waits for another that may not come to it. A replay runs the
    parts in order, and adds up in between: each part uses the memory that those before it have left, as in one graph.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._pool = torch.cuda.graph_pool_handle()
        self._parts: list[torch.cuda.CUDAGraph] = []
        self._sums: list[tuple[Tensor, Tensor | None]] = []  # held, so that no later part takes their memory

    def record(self, body: Callable[[], T]) -> T:
        with recording_on(self._stream), noted_by(self._cut):
            self._begin()
            try:
                result = body()
            except BaseException:
                with suppress(RuntimeError):  # says only that something failed before
                    self._end()
                raise
            self._end()
            return result

    def _begin(self) -> None:
        self._parts.append(torch.cuda.CUDAGraph())
        begin_capture(self._parts[-1], self._pool)

    def _end(self) -> None:
        end_capture(self._parts[-1], self._pool, self._stream)

    def _cut(self, tensor: Tensor) -> None:
        self._end()
        self._sums.append((tensor, host_copy(tensor) if by_host(tensor) else None))
        self._begin()

    def replay(self) -> None:
        first, *others = self._parts
        first.replay()
        for part, (tensor, host) in zip(others, self._sums, strict=True):
            if host is None:
                dist.all_reduce(tensor)
            else:
                through_host(tensor, host)
            part.replay()
