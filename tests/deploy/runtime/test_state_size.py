"""The size of a network's memory, computed without C, is the one that C computes."""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

import bitspike.deploy.runtime
from bitspike.deploy.describe import describe
from bitspike.deploy.runtime.c_engine import CEngine
from bitspike.deploy.runtime.layout import COUNTS, REALS, runtime_layers
from bitspike.deploy.runtime.state_size import PORTABLE, VECTORS, state_bytes
from helpers.random_networks import random_network

SOURCE = Path(bitspike.deploy.runtime.__file__).parent / "runtime.c"


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory):
    """Return the runtime as a library: in portable C, and with vectors."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("runtime")
    libraries = []
    for name, flags in (("portable", ["-DBS_PORTABLE"]), ("vectors", [])):
        command = ["cc", "-std=c99", "-O0", "-shared", "-fPIC", *flags, str(SOURCE), "-o", str(folder / name)]
        subprocess.run(command, check=True)
        libraries.append(ctypes.CDLL(str(folder / name)))
        libraries[-1].bs_state_bytes.restype = ctypes.c_size_t
    return libraries


def test_it_is_the_runtimes_own(runtimes):
    builds = (PORTABLE, VECTORS if platform.machine() == "x86_64" else PORTABLE)
    models = [describe(random_network(seed)) for seed in range(80)]
    assert sum(any(layer.gains is not None for layer in model.layers) for model in models) > 20
    for seed, model in enumerate(models):
        engine, layers = CEngine(model, 1, wide=False), runtime_layers(model)
        for reals, image in ((False, False), (True, False), (True, True)):
            c_model = engine.c_model(reals=reals, image=image)
            for runtime, build in zip(runtimes, builds, strict=True):
                assert runtime.bs_state_bytes(ctypes.byref(c_model)) == state_bytes(
                    layers,
                    form=REALS if reals else COUNTS,
                    planes=c_model.planes,
                    image=bool(c_model.image),
                    build=build,
                ), (seed, reals, image, build)
