"""Large CPU buffers that are handed out again once freed: their page faults cost more than the scan that fills them.

PyTorch returns a large CPU tensor's memory to the system when it dies and faults in fresh pages for the next one.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

_LARGE = 1 << 20  # bytes; malloc recycles smaller ones by itself
_KEEP = int(os.environ.get("BITSPIKE_CPU_CACHE_MB", "1024")) << 20


def float32(shape: Sequence[int]) -> Tensor:
    """An uninitialised float32 tensor on the CPU, whatever PyTorch's defaults are set to."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def keep_freed_memory() -> None:
    """Ask glibc to keep what is freed instead of returning it: for programs, whose memory is their own to tune."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        trim_threshold, top_pad, mmap_threshold = -1, -2, -3
        mallopt(mmap_threshold, 32 << 20)  # the most it takes
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(top_pad, 64 << 20)


class BufferPool:
    """Hands out float32 tensors; keeps up to `keep` bytes of those that have died, the oldest dropped first."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._free: deque[Tensor] = deque()

    def empty(self, shape: Sequence[int]) -> Tensor:
        """A tensor of `shape` with arbitrary contents."""
        count = torch.Size(shape).numel()
        if count * 4 < _LARGE:
            return float32(shape)
        memory = self._take(count)
        # The tensor holds this view alive, so its end tells us that the last user of the memory is gone.
        lease = (ctypes.c_float * count).from_address(memory.data_ptr())
        weakref.finalize(lease, self._give_back, memory).atexit = False
        return torch.frombuffer(lease, dtype=torch.float32).view(shape)

    def _take(self, count: int) -> Tensor:
        for _ in range(len(self._free)):
            # One thread's pop cannot be another's: deque operations are atomic.
            try:
                memory = self._free.popleft()
            except IndexError:
                break
            if memory.numel() == count:
                return memory
            self._free.append(memory)
        return float32((count,))

    def _give_back(self, memory: Tensor) -> None:
        self._free.append(memory)
        while sum(m.nbytes for m in tuple(self._free)) > self.keep:
            with suppress(IndexError):  # another thread may have dropped the last one
                self._free.popleft()


pool = BufferPool(_KEEP)
