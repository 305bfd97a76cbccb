"""The one C extension, as ops use it: the loader of c_library.py, and what is asked of tensors."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from bitspike.c_library import COUNT, NUMBER, POINTER, declare, expect, kernels, library
from bitspike.ops.available import transformed
from bitspike.ops.checks import is_ordinary

__all__ = [
    "COUNT",
    "NUMBER",
    "POINTER",
    "address",
    "allowed",
    "declare",
    "expect",
    "kernels",
    "library",
    "succeed",
    "usable",
]


def allowed(backend: str = "auto") -> bool:
    """Return whether C may be used: it is built, nobody asks for another backend, no transform of torch.func is on."""
    if os.environ.get("BITSPIKE_BACKEND", "auto") not in ("", "auto") or backend != "auto":
        return False
    return library() is not None and not transformed()


def usable(x: Tensor, backend: str = "auto") -> bool:
    """Return whether a layer with this `backend` may run in C on `x`: only "auto", float32, on the CPU."""
    if not is_ordinary(x, x.shape, x.device) or x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return False
    return x.numel() > 0 and allowed(backend)


def address(tensor: Tensor | None) -> int | None:
    """Return where a tensor lies in memory, for C; None is C's NULL."""
    return None if tensor is None else tensor.data_ptr()


def succeed(name: str, failed: int) -> None:
    """Raise MemoryError if the kernel `name` reports that it had too little memory."""
    if failed:
        raise MemoryError(f"{name}: no memory for the scratch of {failed} threads")
