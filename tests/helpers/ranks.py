"""Several processes as threads of this one that take turns: each runs alone until all of them exchange a tensor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch import Tensor

from bitspike.nn.sharding import Shard


class Ranks:
    """`size` ranks, of which one runs at a time, so that code which is not safe for threads runs in each.

    `messages` holds the shape and dtype of all that they exchanged.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.messages: list[tuple[tuple[int, ...], Any]] = []
        self._sent: list[Tensor] = []
        self._turns = [threading.Event() for _ in range(size)]
        self._errors: list[BaseException] = []

    def shards(self, rows: int, each: int = 1) -> list[Shard]:
        """Return every rank's part of a batch of `rows` samples, of `each` rows."""
        bounds = [rank * rows // self.size * each for rank in range(self.size + 1)]
        return [
            Shard(bounds[rank], bounds[rank + 1], rows * each, lambda x, rank=rank: self._sum(rank, x))
            for rank in range(self.size)
        ]

    def run(self, body: Callable[[int], Any]) -> list[Any]:
        """Return body(rank) of every rank."""
        results: list[Any] = [None] * self.size

        def work(rank: int) -> None:
            self._turns[rank].wait()
            try:
                results[rank] = body(rank)
            except BaseException as error:
                self._errors.append(error)
            self._pass_on(rank)

        threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        self._turns[0].set()
        for thread in threads:
            thread.join(60)
        if self._errors:
            raise self._errors[0]
        assert not any(thread.is_alive() for thread in threads), "the ranks exchange different things"
        return results

    def _pass_on(self, rank: int) -> None:
        self._turns[rank].clear()
        self._turns[(rank + 1) % self.size].set()

    def _sum(self, rank: int, tensor: Tensor) -> Tensor:
        round_ = len(self._sent) // self.size
        self._sent.append(tensor.detach().clone())
        self._pass_on(rank)
        self._turns[rank].wait()
        if self._errors:
            raise RuntimeError("another rank failed")
        parts = self._sent[round_ * self.size : (round_ + 1) * self.size]
        assert len(parts) == self.size, "another rank has ended"
        assert len({(tuple(part.shape), part.dtype) for part in parts}) == 1, parts
        if rank == 0:
            self.messages.append((tuple(tensor.shape), tensor.dtype))
        total = parts[0].clone()
        for part in parts[1:]:
            total += part
        return total
