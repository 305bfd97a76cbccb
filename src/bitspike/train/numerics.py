"""The arithmetic of a run: its precision, its threads, and the settings that make it reproducible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import deterministic as _settings

deterministic: Any = _settings  # its only member is set from outside

Precision = Literal["float32", "tf32", "bf16", "float64"]


# Neuron-steps of an iteration below which one thread is as fast as two on an idle machine, and faster on a busy one
# (benchmarks/cpu_waiting.py).
SMALL = 1 << 17


@contextmanager
def threads_for(neuron_steps: int) -> Iterator[None]:
    """Use one thread for a small network: its operations end before a second thread is awake.

    The same network always gets the same number, since the sums of two threads round differently from those of one.
    OMP_NUM_THREADS takes precedence.
    """
    before = torch.get_num_threads()
    if neuron_steps < SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def reproducible(precision: Precision) -> Iterator[None]:
    """Use deterministic algorithms, and tf32 only if asked for; then restore PyTorch's settings and random state."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it
    if precision == "bf16":
        avoid_broken_amx()
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


def avoid_broken_amx(cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Keep oneDNN from AMX where the processor advertises it but a virtual machine does not let it execute.

    A bf16 product would end the process (SIGILL), so another process tries one first. oneDNN reads the setting when it
    is first used: this must come before.
    """
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not cpuinfo.is_file() or "amx_bf16" not in cpuinfo.read_text():
        return
    if not _survives_bf16():
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"


def _survives_bf16() -> bool:
    """Return whether a process survives a bf16 product."""
    product = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); (a @ a).sum().item()"
    return subprocess.run([sys.executable, "-c", product], capture_output=True, check=False).returncode == 0


def dtype_of(precision: Precision) -> torch.dtype:
    """Return the dtype of weights and inputs."""
    return torch.float64 if precision == "float64" else torch.float32


def cast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return a context that casts synapses to bf16 if `precision` asks for it."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def as_input(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `x` in the network's dtype; event counts stay bytes, which the network takes as they are."""
    return x if x.dtype == torch.uint8 else x.to(dtype)
