"""Every function that the C files of ops export is declared."""

import re
from pathlib import Path

import bitspike.ops
from bitspike import c_library
from bitspike.nn import block  # noqa: F401 (imports every op with C code that networks have)
from bitspike.ops.cochlea import c  # noqa: F401

OPS = Path(bitspike.ops.__file__).parent


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
    declared = {name: held for name, held in c_library._signatures.items() if not name.startswith(("bs_", "bitspike_"))}
    assert declared.keys() == exported().keys() - asked
    for name, (_, arguments) in declared.items():
        assert len(arguments) == len(exported()[name]), name
