"""The arithmetic of a run: which precision, and that the same run gives the same numbers again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import deterministic as _settings

deterministic: Any = _settings  # its only member is set from outside

Precision = Literal["float32", "tf32", "bf16", "float64"]


@contextmanager
def reproducible(precision: Precision) -> Iterator[None]:
    """Deterministic algorithms, float32 as said, and PyTorch's settings and random state put back afterwards."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
    )
    torch.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = False  # it would fill every new tensor, for debugging
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = False  # timings would choose the algorithm
    try:
        with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        deterministic.fill_uninitialized_memory = before[2]
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before[3], before[4]
        torch.backends.cudnn.benchmark = before[5]


def dtype_of(precision: Precision) -> torch.dtype:
    """Of weights and inputs."""
    return torch.float64 if precision == "float64" else torch.float32


def cast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Autocast of synapses to bf16, where asked for."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def as_input(x: Tensor, dtype: torch.dtype) -> Tensor:
    """In the network's dtype; event counts stay bytes, which the network takes as they are."""
    return x if x.dtype == torch.uint8 else x.to(dtype)
