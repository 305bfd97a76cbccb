"""A contender of the benchmark: one training step of one library, with the facts needed to judge its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from bitspike.train.numerics import deterministic


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """PyTorch's switches while a contender runs; the defaults are PyTorch's own."""

    matmul_tf32: bool = False
    conv_tf32: bool = True
    autocast_bf16: bool = False
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class Contender:
    """A library in the benchmark: `step()` starts a training step, `wait()` returns when all started steps are done."""

    name: str
    library: str
    version: str
    setting: str
    differs: Sequence[str]
    step: Callable[[], object]
    wait: Callable[[], object]
    arithmetic: Arithmetic = Arithmetic()
    peak_bytes: Callable[[], int | None] | None = None  # where memory is not PyTorch's
    state: Callable[[], str] | None = None  # what belongs to the setting and is known only after some steps


def waiter(device: torch.device) -> Callable[[], None]:
    """Return a function that waits for PyTorch's work on a device."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return wait


@contextmanager
def using(arithmetic: Arithmetic, device: torch.device) -> Iterator[None]:
    """Set PyTorch's switches for the block, and restore them afterwards."""
    matmul, conv = torch.backends.cuda.matmul, torch.backends.cudnn
    before = (matmul.allow_tf32, conv.allow_tf32, torch.are_deterministic_algorithms_enabled())
    fill = deterministic.fill_uninitialized_memory
    matmul.allow_tf32, conv.allow_tf32 = arithmetic.matmul_tf32, arithmetic.conv_tf32
    torch.use_deterministic_algorithms(arithmetic.deterministic)
    deterministic.fill_uninitialized_memory = False
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=arithmetic.autocast_bf16, cache_enabled=False):
            yield
    finally:
        matmul.allow_tf32, conv.allow_tf32 = before[:2]
        torch.use_deterministic_algorithms(before[2])
        deterministic.fill_uninitialized_memory = fill
