"""A pool of large CPU buffers, because fresh memory costs more time than the scan that fills it.

PyTorch returns a large CPU tensor's memory to the system when it dies and faults in fresh pages for the next one.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock

import torch
from torch import Tensor

_LARGE = 1 << 20  # bytes; malloc recycles smaller ones by itself


def float32(shape: Sequence[int]) -> Tensor:
    """Return an uninitialised float32 tensor on the CPU, whatever PyTorch's defaults are set to."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def keep_freed_memory() -> None:
    """Ask glibc to keep freed memory. Only programs may call this: a library must not change the user's process."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        trim_threshold, top_pad, mmap_threshold = -1, -2, -3
        mallopt(mmap_threshold, 32 << 20)  # the most it takes
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(top_pad, 64 << 20)


class BufferPool:
    """A pool of float32 tensors: it keeps up to `keep` bytes of those that are freed, and drops the oldest first."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._free: list[Tensor] = []  # oldest first; only touched with the lock held
        self._lock = Lock()
        # Tensors die on any thread, and in a garbage collection that may interrupt the very lines below:
        # what comes back waits here, since putting into a SimpleQueue is safe even then.
        self._returned: SimpleQueue[Tensor] = SimpleQueue()

    def empty(self, shape: Sequence[int]) -> Tensor:
        """Return a tensor of `shape` with arbitrary contents."""
        shape = torch.Size(shape)
        count = shape.numel()
        if count * 4 < _LARGE:
            return float32(shape)
        memory = self._take(_rounded(count))
        # The tensor holds this view alive, so its end tells us that the last user of the memory is gone.
        lease = (ctypes.c_float * count).from_address(memory.data_ptr())
        weakref.finalize(lease, self._give_back, memory).atexit = False
        # A tensor of its own on that storage: a view could not be changed in place as an output of autograd.
        return float32((0,)).set_(torch.frombuffer(lease, dtype=torch.float32).untyped_storage(), 0, shape)  # type: ignore[call-overload, no-any-return]

    def _take(self, count: int) -> Tensor:
        with self._lock:
            self._collect()
            for i, memory in enumerate(self._free):
                if memory.numel() == count:
                    return self._free.pop(i)
        return float32((count,))

    def _give_back(self, memory: Tensor) -> None:
        self._returned.put(memory)
        if self._lock.acquire(blocking=False):  # else whoever holds it, or the next call, collects
            try:
                self._collect()
            finally:
                self._lock.release()

    def _collect(self) -> None:
        """Add returned tensors to the free buffers, and drop the oldest above the limit."""
        with suppress(Empty):
            while True:
                self._free.append(self._returned.get_nowait())
        while sum(memory.nbytes for memory in self._free) > self.keep:
            self._free.pop(0)


def _rounded(count: int) -> int:
    """Round up by at most an eighth, so that batches of about one size share buffers."""
    step = 1 << max(count.bit_length() - 4, 0)
    return -(-count // step) * step


def _keep_from_environment() -> int:
    text = os.environ.get("BITSPIKE_CPU_CACHE_MB", "1024")
    if not text.isdecimal():
        raise ValueError(f"BITSPIKE_CPU_CACHE_MB must be a whole number of megabytes >= 0, but is {text!r}")
    return int(text) << 20


pool = BufferPool(_keep_from_environment())
