"""The shared parts of comparisons of a run's spikes: test samples in batches, and how a result was made."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import bitspike
from bitspike.data.samples import Samples
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.run_data import dataset_of
from bitspike.experiments.saved import best_trial, made_with
from bitspike.train.numerics import as_input


def made_by() -> dict[str, Any]:
    """Return the command, the versions and the machine, for the head of a result."""
    return {
        "command": shlex.join(["python", *sys.argv]),
        "versions": {"bitspike": bitspike.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "machine": platform.machine(),
    }


def test_samples(path: Path) -> Samples:
    """Return the test samples of a run, on the CPU."""
    return dataset_of(made_with(best_trial(path)), RunOptions(device=torch.device("cpu"))).test


def batches(samples: Samples, count: int | None, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the first `count` samples (all by default) and their labels, `size` at a time, as a network takes them."""
    count = min(count or len(samples), len(samples))
    for first in range(0, count, size):
        x, labels = samples.batch(torch.arange(first, min(first + size, count)))
        yield as_input(x, torch.float32), labels


def keep(results: dict[str, Any], path: Path, out: Path | None) -> None:
    """Print the result of one run, and write all results so far."""
    print(path, json.dumps(results[str(path)]), flush=True)
    if out:
        out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
