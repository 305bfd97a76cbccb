"""Dense counts to compare binned events with."""

import torch


def dense(samples, steps, shape, seed=0, density=0.3):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 256, (samples, steps, *shape), generator=generator)
    return counts * (torch.rand(counts.shape, generator=generator) < density)
