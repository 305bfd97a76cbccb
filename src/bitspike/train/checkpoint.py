"""Checkpoints and weights: two files that are written atomically, so that a killed run leaves no broken file."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bitspike._lazy import not_installed
from bitspike.files import write_atomically

FORMAT = 1
MOST_METADATA = 1 << 20  # characters; ours has hundreds


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state` to a file: only tensors, numbers, strings, lists and dicts, which load without running code."""
    # in memory first: torch's file writer hides why it could not write
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    write_atomically(path, lambda to: to.write_bytes(buffer.getbuffer()))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return what `save_checkpoint` wrote. Loading runs no code, and takes no more memory than the file has bytes."""
    try:
        with zipfile.ZipFile(path) as file:
            _require_plain(file, path.stat().st_size)
            broken = file.testzip()  # torch does not look at checksums
        if broken is not None:
            raise zipfile.BadZipFile(broken)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception:  # an unpickler fails in any way on damaged bytes
        raise ValueError(
            f"{path} is not a checkpoint of bitspike, or is damaged; delete it to start from the beginning"
        ) from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"{path} is not a checkpoint of this version of bitspike (format {FORMAT})")
    return state


def _require_plain(file: zipfile.ZipFile, size: int) -> None:
    """Raise unless all entries are stored without compression: a compressed one may unpack to any size."""
    entries = file.infolist()
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if packed or sum(entry.file_size for entry in entries) > size:
        raise zipfile.BadZipFile("torch.save packs nothing")


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """The bytes of a safetensors file that holds a network; `digest` is the checksum of its tensors and metadata."""

    content: bytes
    digest: str

    def write(self, path: Path) -> None:
        """Write the file to `path`, atomically."""
        write_atomically(path, lambda to: to.write_bytes(self.content))


def pack_weights(net: nn.Module, metadata: Mapping[str, Any]) -> PackedWeights:
    """Return the network's state as safetensors, with `metadata` and a digest that reveals a damaged file."""
    safetensors = _safetensors()
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
    digest = _digest(tensors, metadata)
    # one entry: safetensors writes several in any order, and equal networks should be equal files
    text = {"bitspike": json.dumps({**metadata, "sha256": digest})}
    return PackedWeights(safetensors.torch.save(tensors, metadata=text), digest)


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    """Return the sha256 of metadata, names, dtypes, shapes and bytes."""
    heads = [[name, str(tensor.dtype), list(tensor.shape)] for name, tensor in sorted(tensors.items())]
    summed = hashlib.sha256(json.dumps([metadata, heads], sort_keys=True).encode())
    for _, tensor in sorted(tensors.items()):
        summed.update(tensor.flatten().view(torch.uint8).numpy().data)
    return summed.hexdigest()


def load_weights(path: Path, net: nn.Module) -> None:
    """Read the file `path` into `net`; raise unless names, shapes and dtypes of all parameters agree."""
    own = net.state_dict()
    require_shapes(path, {name: tuple(tensor.shape) for name, tensor in own.items()}, whole=True)
    with _opened(path) as file:
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = _read_metadata(file)
    # a file of an earlier version has no digest
    if (digest := metadata.pop("sha256", None)) is not None and digest != _digest(tensors, metadata):
        raise ValueError(f"{path} is damaged: its content does not have the checksum that it was written with")
    for name, tensor in own.items():
        if tensors[name].dtype != tensor.dtype:
            raise ValueError(f"{path} holds another network: {name} is {tensors[name].dtype}, not {tensor.dtype}")
    net.load_state_dict(tensors)


def require_shapes(path: Path, wanted: Mapping[str, tuple[int, ...]], *, whole: bool) -> None:
    """Raise unless the file's header has tensors of these shapes; with `whole` it must have no others."""
    with _opened(path) as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    missing = wanted.keys() ^ shapes.keys() if whole else wanted.keys() - shapes.keys()
    strange = sorted(missing) or [
        f"{name} {list(shapes[name])} instead of {list(shape)}"
        for name, shape in wanted.items()
        if shapes[name] != shape
    ]
    if strange:
        raise ValueError(f"{path} holds another network: {', '.join(strange[:3])}{' ...' if strange[3:] else ''}")


@dataclass(frozen=True, slots=True)
class WeightsInfo:
    """The metadata of a best.safetensors: its epoch, the epoch's accuracy, and what the network was trained with."""

    path: Path
    metadata: Mapping[str, Any]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the network's input."""
        shape = self.metadata.get("input_shape")
        if not isinstance(shape, list) or not 0 < len(shape) < 9 or not all(_whole(size, 2**24) for size in shape):
            raise self._lacks("the shape of the network's input")
        return tuple(shape)

    @property
    def accuracy(self) -> float:
        """The accuracy by which the epoch was chosen."""
        accuracy = self.metadata.get("accuracy")
        if not isinstance(accuracy, float) or not 0 <= accuracy <= 1:
            raise self._lacks("the network's accuracy")
        return accuracy

    @property
    def epoch(self) -> int:
        """The epoch that was chosen; the first is 1."""
        epoch = self.metadata.get("epoch")
        if not isinstance(epoch, int) or not _whole(epoch, 2**62):
            raise self._lacks("the epoch")
        return epoch

    @property
    def digest(self) -> str | None:
        """The digest of the content; None in a file of an earlier version."""
        digest = self.metadata.get("sha256")
        return digest if isinstance(digest, str) else None

    def recorded(self, kind: Literal["settings", "samples"], what: str) -> str | None:
        """Return the digest of what the network was trained with; None in a file of an earlier version."""
        digests = self.metadata.get(kind)
        return digests.get(what) if isinstance(digests, dict) else None

    def _lacks(self, what: str) -> ValueError:
        return ValueError(f"{self.path} does not say {what}; was it written by bitspike train?")


def _whole(value: object, below: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < below


def weights_info(path: Path) -> WeightsInfo:
    """Return the metadata of a weights file; no tensor is read."""
    with _opened(path) as file:
        return WeightsInfo(path, _read_metadata(file))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    safetensors = _safetensors()
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; has the run finished its first epoch?")
    try:
        with safetensors.safe_open(path, "pt") as file:
            yield file
    except PermissionError:
        raise
    except (safetensors.SafetensorError, OSError, ValueError, TypeError, RuntimeError, RecursionError) as error:
        raise ValueError(f"{path} is not a safetensors file, or is damaged: {_line(error)}") from None


def _read_metadata(file: Any) -> dict[str, Any]:
    text = (file.metadata() or {}).get("bitspike", "null")
    if len(text) > MOST_METADATA:
        raise ValueError(f"its metadata has {len(text)} characters, more than {MOST_METADATA}")
    metadata = json.loads(text)
    return metadata if isinstance(metadata, dict) else {}


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.torch
    except ModuleNotFoundError:
        raise not_installed("safetensors", "weights are kept as safetensors") from None
    return safetensors


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
