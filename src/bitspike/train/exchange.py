"""Sums over processes, and a place where a recorder notes them: no CUDA graph can hold one that the host computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

_notes: list[Callable[[Tensor], object]] = []  # of the recording that is under way, if one is


def add_up(tensor: Tensor) -> Tensor:
    """Add `tensor` up over all processes, in place; while a recording is under way it is only noted."""
    if _notes:
        _notes[-1](tensor)
    elif by_host(tensor):
        through_host(tensor, host_copy(tensor))
    else:
        dist.all_reduce(tensor)
    return tensor


def by_host(tensor: Tensor) -> bool:
    """Return whether the host adds the tensor up, though it lies on a GPU: gloo does it there."""
    return tensor.is_cuda and "cuda:gloo" in dist.get_backend_config()


@contextmanager
def noted_by(note: Callable[[Tensor], object]) -> Iterator[None]:
    """Give `note` every tensor that is to be added up in the block, in place of adding it up."""
    _notes.append(note)
    try:
        yield
    finally:
        _notes.remove(note)


def host_copy(tensor: Tensor) -> Tensor:
    """Return memory of the host that a GPU copies a tensor to and from at full speed."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)


def through_host(tensor: Tensor, host: Tensor) -> None:
    """Add a GPU's tensor up over all processes, in place, by way of `host`; it waits for the current stream."""
    host.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream(tensor.device).synchronize()
    dist.all_reduce(host)
    tensor.copy_(host, non_blocking=True)
