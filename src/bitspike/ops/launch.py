"""In which formats the backward pass stores and multiplies."""

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
    """How much a program takes; the interpreter, which runs programs one by one, takes as much as it can."""
    return interpreted if INTERPRETED else block


def on(tensor: Tensor) -> AbstractContextManager[object]:
    """Launches go to the current device, which need not be the tensor's: make it so."""
    return torch.cuda.device_of(tensor)
