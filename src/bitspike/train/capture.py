"""CUDA graphs: a step that uses only device memory is recorded once, and then replayed as one launch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar

import torch

T = TypeVar("T")


class Graph(Protocol):
    """An interface for recorders: `record` notes what a function launches, `replay` executes it."""

    def record(self, body: Callable[[], T]) -> T: ...

    def replay(self) -> None: ...


@contextmanager
def recording_on(stream: torch.cuda.Stream) -> Iterator[None]:
    """Run the block on `stream` with the device at rest, unused memory freed, and no garbage collection."""
    # A collection during the recording could free what other streams use, which ends the recording. Only young
    # objects are collected before it, such as those of the first iterations: all of them would take 0.2 s.
    gc.collect(1)
    collects = gc.isenabled()
    gc.disable()
    try:
        torch.cuda.synchronize(stream.device)
        torch.cuda.empty_cache()  # what the body took before, the graph takes again
        # not torch.cuda.graph, which would leave the stream current where the recording fails
        with torch.cuda.stream(stream):
            yield
    finally:
        if collects:
            gc.enable()


def begin_capture(graph: torch.cuda.CUDAGraph, pool: Any) -> None:
    """Begin to record on the current stream; other threads may use the device."""
    graph.capture_begin(pool, capture_error_mode="thread_local")


def end_capture(graph: torch.cuda.CUDAGraph, pool: Any, stream: torch.cuda.Stream) -> None:
    """End the recording on `stream`; if it has failed, give its memory back and raise."""
    try:
        graph.capture_end()
    except RuntimeError:
        # PyTorch does not tell its allocator, which would then refuse to empty its cache
        for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
            with suppress(RuntimeError):
                getattr(torch._C, name, lambda device, pool: None)(stream.device.index, pool)
        raise


class CudaGraph:
    """A CUDA graph that is recorded on `stream`; it keeps the memory of the recorded work as long as it lives."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._graph = torch.cuda.CUDAGraph()

    def record(self, body: Callable[[], T]) -> T:
        pool = torch.cuda.graph_pool_handle()
        with recording_on(self._stream):
            begin_capture(self._graph, pool)
            try:
                result = body()
            except BaseException:
                with suppress(RuntimeError):  # says only that something failed before
                    end_capture(self._graph, pool, self._stream)
                raise
            end_capture(self._graph, pool, self._stream)
            return result

    def replay(self) -> None:
        self._graph.replay()


class Captured(Generic[T]):
    """A function `body` that runs from Python in the first `warmup` calls, and is then recorded and replayed.

    Each call returns what `body` returned.

    The body must use the same device memory in every call, never wait for the device, and keep on it what changes
    between calls: a replay runs none of its Python. Recording executes nothing, so no call is lost to it. What the body
    returned when it was recorded is rewritten by every replay.

    `refusal` is a reason, known from the start, why nothing is recorded. Where recording fails, `reason` tells, and the
    body goes on from Python: nothing was executed, so nothing is lost.
    """

    def __init__(
        self,
        body: Callable[[], T],
        device: torch.device,
        *,
        warmup: int = 3,
        refusal: str | None = None,
        graph: Callable[[torch.cuda.Stream], Graph] = CudaGraph,
    ) -> None:
        self.reason = refusal
        self._body = body
        self._left = warmup
        self._make = graph
        # One stream for all: autograd remembers the stream on which a parameter was first used, and a recording that
        # meets another one fails.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._replay: Callable[[], None] | None = None
        self._result: T | None = None

    @property
    def recorded(self) -> bool:
        """True if a call now replays the recording."""
        return self._replay is not None

    def __call__(self) -> T:
        if self._replay is None and self._left == 0 and self.reason is None:
            self._record()
        if self._replay is not None:
            self._replay()
            return self._result  # type: ignore[return-value]
        self._left = max(self._left - 1, 0)
        return self.plainly(self._body)

    def release(self) -> None:
        """Drop the body and its recording, with all memory that they hold; it cannot be called any more."""
        self._body = self._replay = self._result = None  # type: ignore[assignment]

    def plainly(self, body: Callable[[], T]) -> T:
        """Call `body` from Python, in order with the other calls; use it for a batch of another size."""
        with _in_turn(self._stream):
            return body()

    def _record(self) -> None:
        try:
            graph = self._make(self._stream)  # type: ignore[arg-type]
            self._result = graph.record(self._body)
        except Exception as error:  # an error of the body itself comes again when it is called from Python
            self.reason = f"recording failed: {_line(error)}"
        else:
            self._replay = graph.replay


@contextmanager
def _in_turn(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Run the block on `stream`: after the work that the current stream has queued, before what it will queue."""
    if stream is None:
        yield
        return
    here = torch.cuda.current_stream(stream.device)
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        yield
    here.wait_stream(stream)


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
