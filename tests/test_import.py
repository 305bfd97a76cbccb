"""The import is lean and the surface complete."""

import subprocess
import sys

import pytest

import bitspike

OPTIONAL = ("matplotlib", "typer", "rich", "snntorch", "spikingjelly", "pandas", "scipy")


def test_importing_loads_no_optional_library():
    code = f"import sys, bitspike; print([name for name in {OPTIONAL!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize("name", bitspike.__all__)
def test_every_public_name_exists_and_says_what_it_is(name):
    assert getattr(bitspike, name).__doc__


def test_the_public_names_are_the_contract():
    contract = {
        "binarize",
        "lif",
        "LIFOutput",
        "BinaryLinear",
        "BinaryConv2d",
        "LIF",
        "build",
        "Relax",
        "Linear",
        "Constant",
        "ThresholdAnnealing",
        "count_loss",
        "trace_loss",
    }
    assert contract <= set(bitspike.__all__)
    assert sorted(set(bitspike.__all__)) == sorted(bitspike.__all__)
