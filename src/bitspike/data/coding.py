"""The synthetic temporal coding task: one Poisson input, and the step at which the output should fire."""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.data.encoders import poisson
from bitspike.data.samples import Dataset, frames_from_dense

INPUTS, STEPS = 100, 100  # 100 Poisson inputs, 100 time steps: Sec. 4.1
TARGET_TIME = 75
OVERSHOOT = 0.1  # the target's peak lies so far above the threshold


def coding_input(generator: torch.Generator) -> Tensor:
    """Return spikes `[T, inputs]`, each drawn with a rate of its own."""
    rates = torch.rand(STEPS, INPUTS, generator=generator, dtype=torch.float32, device=generator.device)
    return poisson(rates, generator=generator)


def target_trace(theta: float, time: int = TARGET_TIME, steps: int = STEPS) -> Tensor:
    """Return the target `[T]` of the membrane: a straight rise from 0 to 1.1 * theta at the target time, 0 after it."""
    t = torch.arange(steps, dtype=torch.float32, device="cpu")
    return torch.where(t <= time, t / time * (1 + OVERSHOOT) * theta, 0.0)


def coding_task(seed: int) -> Dataset:
    """Return one sample `[T, inputs]`; the seed draws its rates and spikes, and its label is the target time.

    The task is to learn this one input, so it is its own test set.
    """
    spikes = coding_input(torch.Generator().manual_seed(seed))
    sample = frames_from_dense(spikes[None], torch.tensor([TARGET_TIME], device="cpu"))
    return Dataset("coding", "Temporal coding", 1, sample, sample, edition="built in")
