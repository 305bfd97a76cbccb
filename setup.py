"""Build the one C extension from the C files of all ops. Without a compiler bitspike is installed without it."""

import sys
from pathlib import Path

from setuptools import Extension, setup

# PyTorch's Linux builds bring libgomp: with OpenMP the kernels share its threads instead of fighting them.
threads = ["-fopenmp"] if sys.platform == "linux" else []
# No contraction into fused multiply-adds: spikes must equal the plain definition bit for bit.
# No warning about how vectors are passed to functions (psabi): none leaves its file.
flags = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
ops, runtime = Path("src/bitspike/ops"), Path("src/bitspike/deploy/runtime")

setup(
    ext_modules=[
        Extension(
            "bitspike.ops.native._native",
            [str(source) for source in (*sorted(ops.glob("*/*.c")), *sorted(runtime.glob("*.c")))],
            depends=[str(header) for header in (*sorted(ops.glob("*/*.h")), *sorted(runtime.glob("*.h")))],
            include_dirs=[str(ops)],
            extra_compile_args=[*flags, *threads],
            extra_link_args=threads,
            optional=True,
        )
    ]
)
