"""Parts that all Triton kernels share: number formats of the backward pass, sizes of blocks, the device of a launch."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
import triton
import triton.language as tl
from torch import Tensor

# Triton's interpreter has no bfloat16 products, and cuts bfloat16 off where a GPU rounds: it takes float32 for both.
# That lets tests of the formulas be strict.
INTERPRETED = bool(triton.knobs.runtime.interpret)
FLOAT = tl.float32 if INTERPRETED else tl.bfloat16  # factors of tensor-core products
STORED = torch.float32 if INTERPRETED else torch.bfloat16  # surrogates and gradients of spikes and currents


def at_once(block: int, interpreted: int = 2048) -> int:
    """Return the block size of a program: `block`, or more in the interpreter, which runs programs one by one."""
    return interpreted if INTERPRETED else block


def on(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context in which kernels are launched on the tensor's device."""
    return torch.cuda.device_of(tensor)
