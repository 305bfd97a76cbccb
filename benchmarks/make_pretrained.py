"""Make the packed files of trained networks that come with the package, from run folders of the repository.

    python benchmarks/make_pretrained.py

The same runs give the same bytes; a test compares them with the files in the package.
"""

from __future__ import annotations

from pathlib import Path

from bitspike.deploy.pretrained import FOLDER, SUFFIX
from bitspike.experiments.exports import export_run

HOME = Path(__file__).parents[1]
RUNS = {
    "mnist/best": "results/best/mnist",
    "fashion/best": "results/best/fashion",
    "shd/best": "results/shd-best",
    "shd/small": "results/shd-small",
    "nmnist-small/best": "results/nmnist-small-best",
    "dvs-sign/best": "results/dvs-sign-best",
}


def make(folder: Path = FOLDER) -> dict[str, Path]:
    """Write a packed file for each run into `folder`; return their paths by name."""
    made = {}
    for name, run in RUNS.items():
        path = folder / f"{name.replace('/', '-')}{SUFFIX}"
        done = export_run(HOME / run, "packed", path)
        print(f"{name}: {done.bytes:,} bytes, {done.model.weights:,} weights, from {run}")
        made[name] = path
    return made


if __name__ == "__main__":
    make()
