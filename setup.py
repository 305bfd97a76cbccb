"""Only what pyproject.toml cannot say: the C kernels, built where there is a compiler and done without elsewhere."""

import sys

from setuptools import Extension, setup

# PyTorch's Linux builds bring libgomp: with OpenMP the kernels share its threads instead of fighting them.
threads = ["-fopenmp"] if sys.platform == "linux" else []

setup(
    ext_modules=[
        Extension(
            "bitspike.ops._native",
            ["src/bitspike/ops/native.c"],
            # No contraction into fused multiply-adds: spikes must equal the plain definition bit for bit.
            extra_compile_args=["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", *threads],
            extra_link_args=threads,
            optional=True,
        )
    ]
)
