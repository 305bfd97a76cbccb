"""The one C extension is there, fits the Python code, and is done without where it does not. It needs no PyTorch."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import bitspike
from bitspike import c_library

INTERFACE = Path(bitspike.__file__).parent / "ops/native/interface.c"
NEEDS_C = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")


@NEEDS_C
def test_the_kernels_are_there():
    assert c_library.library() is not None, "not compiled; set BITSPIKE_NO_C=1 where there is no C compiler"


def test_one_interface_number():
    (number,) = re.findall(r"bitspike_interface\(void\)\s*{\s*return (\d+);", INTERFACE.read_text())
    assert int(number) == c_library._INTERFACE


@NEEDS_C
def test_a_function_that_is_declared_late_is_known_and_a_missing_one_makes_the_library_unfit(monkeypatch):
    monkeypatch.setattr(c_library, "_signatures", dict(c_library._signatures))
    try:
        c_library.declare("bitspike_interface", result=c_library.COUNT)
        assert c_library.kernels().bitspike_interface.restype is c_library.COUNT
        c_library.declare("not_there")
        assert c_library.library() is None
        with pytest.raises(RuntimeError, match="the compiled kernels are missing"):
            c_library.kernels()
    finally:
        monkeypatch.undo()
        c_library.library.cache_clear()
    assert c_library.library() is not None


@NEEDS_C
@pytest.mark.parametrize("fault", ["missing", "not a library", "another interface", "another answer"])
def test_kernels_that_do_not_load_are_done_without(monkeypatch, tmp_path, fault):
    origin = c_library.PathFinder.find_spec("_native", [str(c_library._FOLDER)]).origin
    if fault == "not a library":
        (tmp_path / "broken.so").write_bytes(b"not a library")
        origin = str(tmp_path / "broken.so")
    spec = None if fault == "missing" else SimpleNamespace(origin=origin)
    monkeypatch.setattr(c_library, "PathFinder", SimpleNamespace(find_spec=lambda name, folders: spec))
    if fault == "another interface":
        monkeypatch.setattr(c_library, "_INTERFACE", -1)
    if fault == "another answer":
        monkeypatch.setattr(c_library, "_answers", {"bitspike_surrogates": -1})
    assert c_library.library.__wrapped__() is None


WITHOUT_TORCH = """
import sys
import numpy as np
import bitspike
from bitspike.c_library import library
engine = bitspike.pretrained("mnist/best")
scores = engine(np.zeros((1, 1, 28, 28), np.uint8)).scores
stream = bitspike.pretrained("shd/small").stream()
stream.advance()
print(library() is not None, scores.shape, "torch" in sys.modules)
"""


@NEEDS_C
def test_a_packed_network_runs_without_importing_pytorch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout == "True (1, 10) False\n"


WITHOUT_OPENMP = """
import ctypes, sys
from types import SimpleNamespace
from bitspike import c_library
tried = []
def fail_once(name):
    tried.append("torch" in sys.modules)
    if len(tried) == 1:
        raise OSError("libgomp.so.1: cannot open shared object file")
    return ctypes.CDLL(name)
c_library.ctypes = SimpleNamespace(CDLL=fail_once)
print(c_library.library() is not None, tried)
"""


@NEEDS_C
def test_where_openmp_is_missing_pytorch_brings_it():
    done = subprocess.run([sys.executable, "-c", WITHOUT_OPENMP], capture_output=True, text=True, check=True)
    assert done.stdout == "True [False, True]\n"
