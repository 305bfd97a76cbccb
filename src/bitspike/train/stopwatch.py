"""The time that a part of the loop takes; on a GPU its own clock measures it, so that nothing waits."""

from __future__ import annotations

import time
from types import TracebackType

import torch


class Stopwatch:
    """Adds up the time of `with watch: ...` blocks; what a CUDA graph records is not timed."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.spans: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self.total = 0.0
        self.began = 0.0
        self.open = False

    def __enter__(self) -> None:
        self.open = not (self.on_gpu and torch.cuda.is_current_stream_capturing())
        if self.on_gpu and self.open:
            self.spans.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
            self.spans[-1][0].record()
        else:
            self.began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.on_gpu and self.open:
            self.spans[-1][1].record()
        elif self.open:
            self.total += time.perf_counter() - self.began

    def seconds(self) -> float:
        """Return the sum; wait for the GPU to be done with all blocks."""
        if self.on_gpu:
            torch.cuda.synchronize()
            self.total += sum(start.elapsed_time(end) for start, end in self.spans) / 1000
            self.spans = []
        return self.total
