"""Large CPU buffers that are handed out again once freed: their page faults cost more than the scan that fills them.

PyTorch returns a large CPU tensor's memory to the system when it dies and faults in fresh pages for the next one.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

_LARGE = 1 << 20  # bytes; malloc recycles smaller ones by itself
_KEEP = int(os.environ.get("BITSPIKE_CPU_CACHE_MB", "1024")) << 20


class BufferPool:
    """Hands out float32 tensors; keeps up to `keep` bytes of those that have died, the oldest dropped first."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self._free: deque[Tensor] = deque()

    def empty(self, shape: Sequence[int]) -> Tensor:
        """A tensor of `shape` with arbitrary contents."""
        count = torch.Size(shape).numel()
        if count * 4 < _LARGE:
            return torch.empty(*shape)
        memory = self._take(count)
        # The tensor holds this view alive, so its end tells us that the last user of the memory is gone.
        lease = (ctypes.c_float * count).from_address(memory.data_ptr())
        weakref.finalize(lease, self._give_back, memory).atexit = False
        return torch.frombuffer(lease, dtype=torch.float32).view(*shape)

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
        return torch.empty(count)

    def _give_back(self, memory: Tensor) -> None:
        self._free.append(memory)
        while self._free and sum(m.nbytes for m in tuple(self._free)) > self.keep:
            self._free.popleft()


pool = BufferPool(_KEEP)
