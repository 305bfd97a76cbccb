"""Packed networks: one file of one bit a weight, which is checked before anything in it is believed.

The page packed-format.md specifies the file; `packing/` makes and reads its bytes.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bitspike.deploy.model import VALUES, InputModel, NetworkModel
from bitspike.deploy.packing import limits
from bitspike.deploy.packing.content import PackedFile, packed_bytes, parse_packed
from bitspike.deploy.packing.vector import CheckVector
from bitspike.files import write_atomically

if TYPE_CHECKING:
    from bitspike.nn import SpikingNetwork


def save_packed(
    net: SpikingNetwork,
    path: str | Path,
    *,
    input: InputModel = VALUES,
    class_names: Sequence[str] = (),
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write the network that `net` is in evaluation mode to a packed file, one bit a weight; return its path.

    `input` says what the network was trained on, `class_names` has a name for each output, and `metadata` is free text.
    The file holds a check vector: an input drawn from a seed, and the network's answer. Equal networks give equal
    files. A packed file that is there is replaced, any other file is refused; so is what cannot be packed, such as
    weights of 32 bits.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import bitspike
        >>> from bitspike.deploy.packed import read_packed, save_packed
        >>> net = bitspike.build("20-10-5", theta=2.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = save_packed(net, Path(folder) / "net.safetensors")
        ...     read_packed(file).weights
        ...
        250
    """
    # Here, because reading a file must not wait for PyTorch.
    from bitspike.deploy.describe import describe
    from bitspike.deploy.packing.answers import make_vector

    model = describe(net, input=input, class_names=class_names, metadata=metadata)
    return write_packed(model, path, make_vector(net, model))


def write_packed(model: NetworkModel, path: str | Path, vector: CheckVector | None = None) -> Path:
    """Write a network, and a vector to check engines with, to a packed file; raise ValueError if it is not valid.

    A packed file that is there is replaced, and so is an empty one; any other file is left as it is.
    """
    content, path = packed_bytes(model, vector), Path(path)
    if path.is_file() and path.stat().st_size and not is_packed(path):
        raise ValueError(f"{path} exists and is no packed network; choose another name, or delete it first")
    return write_atomically(path, lambda to: to.write_bytes(content))


def is_packed(path: Path) -> bool:
    """Return whether a file is a packed network that is whole."""
    try:
        read_packed(path)
    except (OSError, ValueError):
        return False
    return True


def read_packed(path: str | Path) -> NetworkModel:
    """Return the network of a packed file; raise ValueError for a file that is damaged, or no packed network."""
    return read_packed_file(path).model


def read_packed_file(path: str | Path) -> PackedFile:
    """Return the network and the check vector of a packed file, as `read_packed` does."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; bitspike.save_packed and bitspike export write packed files")
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):  # reading a pipe or a device may never end
        raise OSError(f"{path} is not a file")
    if found.st_size > limits.MOST_FILE_BYTES:
        raise ValueError(
            f"{path} has {found.st_size} bytes, more than the {limits.MOST_FILE_BYTES} of a packed network"
        )
    with path.open("rb") as stream:
        content = stream.read(found.st_size)
    return parse_packed(content, str(path))
