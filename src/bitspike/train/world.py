"""Distributed training: processes sum their gradients and counts, so that together they train on one global batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bitspike.nn.sharding import Shard
from bitspike.train.exchange import add_up


class _Sum(torch.autograd.Function):
    """out = sum of x over processes; the gradient is the sum of gradients over processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return add_up(x.contiguous().clone())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total: Tensor = _Sum.apply(grad)  # itself a sum with a gradient, so that second derivatives are right
        return total


@dataclass(frozen=True, slots=True)
class World:
    """The processes that train together: this one is number `rank` of `size`."""

    rank: int = 0
    size: int = 1

    @staticmethod
    def rank_here() -> int:
        """Return this process's number as torchrun gave it, also where no group is joined."""
        return int(os.environ.get("RANK", "0"))

    @property
    def first(self) -> bool:
        """True in the process that writes files and prints."""
        return self.rank == 0

    def share(self, count: int) -> tuple[int, int]:
        """Return start and stop of this process's share of `count` things; shares differ by one at most."""
        return self.rank * count // self.size, (self.rank + 1) * count // self.size

    def shard(self, count: int, rows: int = 1) -> Shard | None:
        """Return this process's part of a batch of `count` samples, `rows` each; None for a single process."""
        if self.size == 1:
            return None
        start, stop = self.share(count)
        return Shard(start * rows, stop * rows, count * rows, _Sum.apply, everywhere=count >= self.size)

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        return add_up(tensor) if self.size > 1 else tensor

    def max_(self, tensor: Tensor) -> Tensor:
        """Take the maximum of a tensor over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum all gradients in one message: they have a few megabytes at most, so latency matters, not bandwidth."""
        if self.size == 1:
            return
        for p in parameters:
            if p.grad is None:  # a process without a sample of this batch still takes part
                p.grad = torch.zeros_like(p)
        grads = [p.grad for p in parameters if p.grad is not None]
        flat = add_up(torch.cat([grad.flatten() for grad in grads]))
        parts = flat.split([grad.numel() for grad in grads])
        torch._foreach_copy_(grads, [part.view_as(grad) for part, grad in zip(parts, grads, strict=True)])

    def wait(self) -> None:
        """Wait until all processes have come to this call."""
        if self.size > 1:
            dist.barrier()


def shares_gpus() -> bool:
    """Return whether torchrun started more processes here than there are GPUs; NCCL takes one for each."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > torch.cuda.device_count()


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """Join the processes that torchrun started; without torchrun, this process is alone.

    Tensors of a GPU are exchanged by NCCL if each process has a GPU of its own, else by gloo in the host's memory.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World()
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" and not shares_gpus() else "gloo")
    try:
        yield World(dist.get_rank(), dist.get_world_size())
        dist.barrier()  # no process ends while another still sends to it
    finally:
        dist.destroy_process_group()
