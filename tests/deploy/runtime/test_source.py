"""The C runtime's source: strict C99 for every compiler at hand and every switch, and nothing of libc but memory."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import bitspike.deploy.runtime
from bitspike import c_library
from bitspike.deploy.runtime import c_engine  # noqa: F401 (declares the functions)

FOLDER = Path(bitspike.deploy.runtime.__file__).parent
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"]
SWITCHES = ["", "BS_PORTABLE", "BS_SMALL", "BS_ONLY_COUNTS", "BS_FIXED"]


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_it_is_strict_c99(compiler, switch):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    define = [f"-D{switch}"] if switch else []
    command = [compiler, *STRICT, *define, "-fsyntax-only", str(FOLDER / "runtime.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_includes_no_more_of_the_c_library_than_memory_and_sizes():
    included = set()
    for file in [FOLDER / "runtime.c", *FOLDER.glob("runtime*.h")]:
        included |= set(re.findall(r"#include <(.*)>", file.read_text()))
    assert included == {"stddef.h", "stdint.h", "string.h", "immintrin.h"}


@pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("nm") is None, reason="no gcc")
def test_it_calls_only_memcpy_and_memset(tmp_path):
    target = tmp_path / "runtime.o"
    subprocess.run(["gcc", "-std=c99", "-O1", "-c", str(FOLDER / "runtime.c"), "-o", str(target)], check=True)
    names = subprocess.run(["nm", "-u", str(target)], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in names if name != "U"} <= {"memcpy", "memset", "__cpu_model", "_GLOBAL_OFFSET_TABLE_"}


def test_every_function_that_python_calls_is_declared_as_the_header_has_it():
    header = re.findall(r"^[\w *]+?\b(bs_\w+)\(([^)]*)\);", (FOLDER / "runtime.h").read_text(), re.MULTILINE)
    arguments = {name: len(given.split(",")) for name, given in header}
    called = {name: held for name, (_, held) in c_library._signatures.items() if name.startswith("bs_")}
    assert {
        f"{prefix}{verb}" for prefix in ("bs_", "bs_fixed_") for verb in ("check", "reset", "step")
    } <= called.keys()
    for name, held in called.items():
        assert len(held) == arguments[name.replace("bs_fixed_", "bs_")], name
