"""Work that nothing waits for at once, on a stream beside the current one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# By the stream that they are beside: networks on streams of their own would wait for each other on one.
_streams: dict[tuple[torch.device, int], torch.cuda.Stream] = {}
_POOL = 32  # streams, which PyTorch hands out in turn


def _unlike(device: torch.device, handle: int) -> torch.cuda.Stream:
    """A stream that is neither `handle`'s nor beside another one, as long as there are any."""
    taken = {handle, *(stream.cuda_stream for stream in _streams.values())}
    for _ in range(_POOL):
        stream = torch.cuda.Stream(device)
        if stream.cuda_stream not in taken:
            break
    return stream


class Aside:
    """`with aside.beside(tensors):` queues work that reads these tensors; `join()` waits for all of it.

    The tensors are held until then, so that their memory is not given to others meanwhile. Without a GPU, everything
    is done in order. All of it must be called on one stream.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: list[Tensor] = []

    def _stream(self) -> torch.cuda.Stream:
        """Beside the current one."""
        place = self._device, torch.cuda.current_stream(self._device).cuda_stream
        if place not in _streams:
            _streams[place] = _unlike(self._device, place[1])
        return _streams[place]

    @contextmanager
    def beside(self, *read: Tensor) -> Iterator[None]:
        """On the other stream, after all that is queued here so far."""
        if self._device.type != "cuda":
            yield
            return
        self._held += read
        stream = self._stream()
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            yield

    def join(self) -> None:
        """Let what is queued here from now on wait for the work aside."""
        if self._held:
            torch.cuda.current_stream(self._device).wait_stream(self._stream())
            self._held = []
