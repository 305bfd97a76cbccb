"""The one C extension is there, fits the Python code, and is done without where it does not."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import bitspike.ops
from bitspike.nn import block  # noqa: F401 (imports every op with C code that networks have)
from bitspike.ops.cochlea import c  # noqa: F401
from bitspike.ops.native import library

OPS = Path(bitspike.ops.__file__).parent
NEEDS_C = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")


@NEEDS_C
def test_the_kernels_are_there():
    assert library.library() is not None, "not compiled; set BITSPIKE_NO_C=1 where there is no C compiler"


def exported():
    """The arguments of every function that C files export, by name."""
    found = {}
    for file in OPS.glob("*/*.c"):
        for name, arguments in re.findall(r"^EXPORT \w+ (\w+)\(([^)]*)\)", file.read_text(), re.MULTILINE):
            found[name] = [] if arguments == "void" else arguments.split(",")
    return found


def test_every_exported_function_is_declared_beside_it():
    asked = {"bitspike_interface", "bitspike_surrogates"}
    # The runtime of deploy, which another test may have imported, is declared beside its own C.
    declared = {name: held for name, held in library._signatures.items() if not name.startswith(("bs_", "bitspike_"))}
    assert declared.keys() == exported().keys() - asked
    for name, (_, arguments) in declared.items():
        assert len(arguments) == len(exported()[name]), name


def test_one_interface_number():
    (number,) = re.findall(r"bitspike_interface\(void\)\s*{\s*return (\d+);", (OPS / "native/interface.c").read_text())
    assert int(number) == library._INTERFACE


@NEEDS_C
def test_a_function_that_is_declared_late_is_known_and_a_missing_one_makes_the_library_unfit(monkeypatch):
    monkeypatch.setattr(library, "_signatures", dict(library._signatures))
    try:
        library.declare("bitspike_interface", result=library.COUNT)
        assert library.kernels().bitspike_interface.restype is library.COUNT
        library.declare("not_there")
        assert library.library() is None
        with pytest.raises(RuntimeError, match="the compiled kernels are missing"):
            library.kernels()
    finally:
        monkeypatch.undo()
        library.library.cache_clear()
    assert library.library() is not None


@NEEDS_C
@pytest.mark.parametrize("fault", ["missing", "not a library", "another interface"])
def test_kernels_that_do_not_load_are_done_without(monkeypatch, tmp_path, fault):
    origin = library.importlib.util.find_spec("bitspike.ops.native._native").origin
    if fault == "not a library":
        (tmp_path / "broken.so").write_bytes(b"not a library")
        origin = str(tmp_path / "broken.so")
    spec = None if fault == "missing" else SimpleNamespace(origin=origin)
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: spec)
    if fault == "another interface":
        monkeypatch.setattr(library, "_INTERFACE", -1)
    assert library.library.__wrapped__() is None
