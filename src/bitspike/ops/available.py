"""Checks of whether Triton's kernels can run on a device, with the reason if they cannot."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec

import torch

OLDEST = (8, 0)  # compute capability: bfloat16 on the tensor cores
MOST_STEPS = 65535  # of a sequence: a launch has no more programs in its second dimension
_NEEDED = {"triton": (3, 4), "torch": (2, 8)}  # what the kernels are written for, and products with wide output


def _number(package: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version(package).split("+")[0].split(".")[:2] if part.isdigit())


@cache
def _missing(device: torch.device) -> str | None:
    if find_spec("triton") is None:
        return "Triton is not installed"
    for package, least in _NEEDED.items():
        if _number(package) < least:
            return f"{package} is {version(package)}, older than {least[0]}.{least[1]}"
    if device.type == "cuda":
        if torch.version.hip:
            return "the kernels are written for NVIDIA's GPUs"
        if os.environ.get("TRITON_INTERPRET") == "1":
            return "TRITON_INTERPRET=1 keeps kernels on the CPU"
        if torch.cuda.get_device_capability(device) < OLDEST:
            return f"{torch.cuda.get_device_name(device)} is older than compute capability {OLDEST[0]}.{OLDEST[1]}"
        return None
    if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return f"the tensors are on {device}, not on a GPU"


def transformed() -> bool:
    """Return whether a transform of torch.func is active: the memory of tensors must not be read then."""
    return bool(torch._C._are_functorch_transforms_active())  # as torch.autograd.Function asks


def in_memory(tensor: torch.Tensor) -> bool:
    """Return whether the tensor has memory that may be read: not within a transform or a batch of gradients."""
    batched = torch._C._functorch.is_legacy_batchedtensor(tensor)  # of torch.autograd.grad(is_grads_batched=True)
    return not (batched or transformed())


def no_fused_kernels(device: torch.device) -> str | None:
    """Return why fused kernels do not run on `device`; None if they do. BITSPIKE_BACKEND may forbid them."""
    if (forced := os.environ.get("BITSPIKE_BACKEND") or "auto") != "auto":
        return f"BITSPIKE_BACKEND asks for {forced!r}"
    if transformed():
        return "a transform of torch.func is at work"
    return _missing(device)


def fused_on_gpu(device: torch.device) -> bool:
    """Return whether to use fused kernels by default: only on a GPU, not in Triton's interpreter."""
    return device.type == "cuda" and no_fused_kernels(device) is None
