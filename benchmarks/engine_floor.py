"""The floor, the processor's clock and the memory that benchmarks/engine.py reports beside times."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bitspike.deploy.engine import Engine, EngineOutput
from bitspike.deploy.model import LayerModel, NetworkModel
from bitspike.deploy.packed import write_packed

_CLOCK = """
#include <stdio.h>
#include <time.h>
int main(void)
{
    double best = 0;
    for (int again = 0; again < 9; again++) {
        struct timespec a, b;
        unsigned long n = 100000000;
        clock_gettime(CLOCK_MONOTONIC, &a);
        __asm__ volatile("1: dec %0\\n jnz 1b" : "+r"(n));
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ghz = 0.1 / ((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
        best = ghz > best ? ghz : best;
    }
    printf("%.2f\\n", best);
}
"""

_MEMORY = """
import sys
import numpy as np
import bitspike
from bitspike.deploy.engine import load_packed

def megabytes(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) / 1024

x = np.load(sys.argv[2])
before = megabytes("VmRSS")
load_packed(sys.argv[1], threads=int(sys.argv[3]))(x)
print(before, megabytes("VmHWM"))
"""


def measured_ghz() -> float | None:
    """Return the clock under load, by a loop of one cycle a turn; None where that cannot be compiled and run."""
    if shutil.which("gcc") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "clock.c", Path(folder) / "clock"
        source.write_text(_CLOCK)
        if subprocess.run(["gcc", "-O1", str(source), "-o", str(program)], capture_output=True).returncode:
            return None
        return float(subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout)


def _static_operations(layer: LayerModel, glances: int) -> float:
    """Return the additions and signs of real inputs, 8 float64 at a time; all glances share a convolution's sums."""
    if layer.kind == "dense":
        return layer.weight.size / 8 * 2
    sides = [n + 2 * layer.padding - layer.kernel + (3 if glances > 1 else 1) for n in layer.input[1:]]
    return sides[0] * sides[1] * layer.weight.size / 8 * 2


def _rows_read(layer: LayerModel, events: np.ndarray) -> float:
    """Return the rows of weights that events `[..., *layer.input]` read: one for each binary 1 in a sender's gain."""
    if layer.gains is None:
        return float(events.sum())
    ones = np.array([int(gain).bit_count() for gain in layer.gains]).reshape(-1, 1, 1)
    return float((events.reshape(-1, *layer.input).sum(0) * ones).sum())


def floor_of(model: NetworkModel, out: EngineOutput, x: np.ndarray, ghz: float) -> dict[str, float]:
    """Return the engine's vector operations for one sample, and their time."""
    steps, batch = out.spikes.shape[:2]
    static = x.ndim == len(model.input_shape) + 1
    operations = 0.0
    before = x
    for i, (layer, step) in enumerate(zip(model.layers, out.layers, strict=True)):
        reach = layer.kernel**2 * layer.weight.shape[0] / layer.stride**2  # weights that an event meets
        lanes = layer.neurons * (layer.divisor if layer.kind == "conv" else 1)
        if static and i == 0:
            operations += _static_operations(layer, model.glances)
        else:
            events = _rows_read(layer, before) / batch
            digits = np.log2(max(2.0, events / steps)) + 1
            operations += events * reach / 512 * 3 + steps * lanes / 64 * digits
        operations += steps * layer.neurons / 16 * 10
        before = step.spikes
    return {"operations": operations, "milliseconds": operations / 2 / (ghz * 1e6)}


def bytes_of(model: NetworkModel, engine: Engine) -> dict[str, int]:
    """Return the bytes of the weights, and those that the engine holds."""
    c = engine._c
    assert c is not None
    held = [array for array in c._arrays[1:] if isinstance(array, np.ndarray)]
    return {
        "weights as bits": -(-model.weights // 8),
        "arrays of the engine": sum(array.nbytes for array in held),
        "state of one sample": c.new_state(c.c_model(reals=False, image=True)).nbytes,
        "float32 weights": 4 * model.weights,
    }


def process_megabytes(model: NetworkModel, x: np.ndarray, threads: int) -> dict[str, float]:
    """Return the resident memory of a process of its own that runs the engine: with the input and all imports, before
    the network is read; and at most. Empty where the system does not tell."""
    if not Path("/proc/self/status").exists():
        return {}
    with tempfile.TemporaryDirectory() as folder:
        packed, values = Path(folder) / "net.safetensors", Path(folder) / "x.npy"
        write_packed(model, packed)
        np.save(values, x)
        command = [sys.executable, "-c", _MEMORY, str(packed), str(values), str(threads)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return {"before": float(told[0]), "at most": float(told[1])}
