"""A second CUDA stream, for work whose result is not needed at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# One for each main stream: networks on streams of their own would wait for each other on a common one.
_streams: dict[tuple[torch.device, int], torch.cuda.Stream] = {}
_POOL = 32  # streams, which PyTorch hands out in turn


def _unused_stream(device: torch.device, handle: int) -> torch.cuda.Stream:
    """Return a stream other than `handle`'s that is not in use here, as long as there is one."""
    taken = {handle, *(stream.cuda_stream for stream in _streams.values())}
    for _ in range(_POOL):
        stream = torch.cuda.Stream(device)
        if stream.cuda_stream not in taken:
            break
    return stream


class SideStream:
    """A second stream: `with side.queue(tensors):` queues work there that reads these tensors; `join()` waits for it.

    The tensors are held until then, so that their memory is not given to others meanwhile. Without a GPU, everything
    is done in order. All of it must be called on one stream.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: list[Tensor] = []

    def _stream(self) -> torch.cuda.Stream:
        """Return the side stream of the current stream."""
        place = self._device, torch.cuda.current_stream(self._device).cuda_stream
        if place not in _streams:
            _streams[place] = _unused_stream(self._device, place[1])
        return _streams[place]

    @contextmanager
    def queue(self, *read: Tensor) -> Iterator[None]:
        """Queue the block's work on the side stream, after all that is queued on the current stream so far."""
        if self._device.type != "cuda":
            yield
            return
        self._held += read
        stream = self._stream()
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            yield

    def join(self) -> None:
        """Make later work on the current stream wait for the side stream."""
        if self._held:
            torch.cuda.current_stream(self._device).wait_stream(self._stream())
            self._held = []
