"""Only what pyproject.toml cannot say: the C kernels, built where there is a compiler and done without elsewhere."""

import sys
from pathlib import Path

from setuptools import Extension, setup

# PyTorch's Linux builds bring libgomp: with OpenMP the kernels share its threads instead of fighting them.
threads = ["-fopenmp"] if sys.platform == "linux" else []
# No contraction into fused multiply-adds: spikes must equal the plain definition bit for bit.
# No word about how vectors are passed (psabi): none leaves its file.
flags = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
ops = Path("src/bitspike/ops")


def kernels(name: str, *sources: str) -> Extension:
    """An extension of bitspike.ops; rebuilt when a header changes."""
    return Extension(
        f"bitspike.ops.{name}",
        [str(ops / source) for source in sources],
        depends=[str(header) for header in sorted(ops.glob("cpu/*.h"))],
        extra_compile_args=[*flags, *threads],
        extra_link_args=threads,
        optional=True,
    )


setup(
    ext_modules=[
        kernels("_native", "native.c"),
        kernels("cpu._native", "cpu/pack.c", "cpu/dense.c", "cpu/conv.c", "cpu/norm.c"),
    ]
)
