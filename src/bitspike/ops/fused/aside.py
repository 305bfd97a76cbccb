"""Work that nothing waits for at once, on a stream beside the current one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_streams: dict[torch.device, torch.cuda.Stream] = {}


class Aside:
    """`with aside.beside(tensors):` queues work that reads these tensors; `join()` waits for all of it.

    The tensors are held until then, so that their memory is not given to others meanwhile. Without a GPU, everything
    is done in order.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: list[Tensor] = []
        if device.type == "cuda" and device not in _streams:
            _streams[device] = torch.cuda.Stream(device)

    @contextmanager
    def beside(self, *read: Tensor) -> Iterator[None]:
        """On the other stream, after all that is queued here so far."""
        if self._device.type != "cuda":
            yield
            return
        self._held += read
        stream = _streams[self._device]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            yield

    def join(self) -> None:
        """Let what is queued here from now on wait for the work aside."""
        if self._held:
            torch.cuda.current_stream(self._device).wait_stream(_streams[self._device])
            self._held = []
