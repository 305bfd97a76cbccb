"""What tests of fused kernels share: the device, memory that shows what was not written, how far tensors are apart."""

import torch

from helpers.interpreter import mend

mend()
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
CLOSE = 1e-2 if GPU else 3e-6  # relative, of a whole gradient: a GPU stores bfloat16, the interpreter float32


def off(a, b):
    """|a - b| / |b|."""
    return ((a - b).norm() / b.norm().clamp(min=1e-30)).item()


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
