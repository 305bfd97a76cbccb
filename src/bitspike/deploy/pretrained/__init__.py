"""Trained networks that come with the package: packed files of a few kilobytes, and `pretrained`, which opens them.

- `TASK-NAME.safetensors`: the network TASK/NAME; benchmarks/make_pretrained.py of the repository makes all of them.
- `cards.py`: what a person asks about each, read from the files' headers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bitspike.text import did_you_mean

if TYPE_CHECKING:
    from bitspike.deploy.engine import Engine

FOLDER = Path(__file__).parent
SUFFIX = ".safetensors"


def pretrained(name: str, *, threads: int | None = None) -> Engine:
    """Return an engine with a trained network that comes with the package; `bitspike pretrained` lists them.

    `threads` is how many share a batch; by default all that the process may use.

    Examples:
        >>> import numpy as np
        >>> import bitspike
        >>> engine = bitspike.pretrained("fashion/best")
        >>> images = np.zeros((2, 1, 28, 28), dtype=np.uint8)  # bytes are divided by 255
        >>> engine(images).counts.shape
        (2, 10)
        >>> engine.model.class_names[9]
        'ankle boot'
    """
    from bitspike.deploy.engine import load_packed

    return load_packed(pretrained_path(name), threads=threads)


def pretrained_names() -> list[str]:
    """Return the names of all networks that come with the package, such as "mnist/best"."""
    return sorted("/".join(path.stem.rsplit("-", 1)) for path in FOLDER.glob(f"*{SUFFIX}"))


def pretrained_path(name: str) -> Path:
    """Return the packed file of a network; the error for an unknown name lists all names, and the nearest one."""
    if name in (known := pretrained_names()):
        return FOLDER / f"{name.replace('/', '-')}{SUFFIX}"
    hint = did_you_mean(str(name), known, cutoff=0.4)
    raise ValueError(f"no pretrained network is named {name!r}: {hint}known are {', '.join(known)}")
