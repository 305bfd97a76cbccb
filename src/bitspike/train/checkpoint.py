"""What survives a kill: the state of a run in one file, the best network in another, both written atomically."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.files import write_atomically

FORMAT = 1


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Tensors, numbers, strings, lists and dicts only: what torch loads without running code."""

    # in memory first: torch's file writer hides why it could not write
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    write_atomically(path, lambda to: to.write_bytes(buffer.getbuffer()))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What `save_checkpoint` wrote; nothing in the file is executed."""
    try:
        with zipfile.ZipFile(path) as file:
            broken = file.testzip()  # torch does not look at checksums
        if broken is not None:
            raise zipfile.BadZipFile(broken)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except (
        *(RuntimeError, OSError, EOFError, ValueError, KeyError),
        *(pickle.UnpicklingError, zipfile.BadZipFile, zlib.error),
    ):
        raise ValueError(
            f"{path} is not a checkpoint of bitspike, or is damaged; delete it to start from the beginning"
        ) from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"{path} is not a checkpoint of this version of bitspike (format {FORMAT})")
    return state


def save_weights(path: Path, net: nn.Module, metadata: Mapping[str, Any]) -> None:
    """The network's state as safetensors, with what it is in the metadata."""
    safetensors = _safetensors()
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
    # one entry: safetensors writes several in any order, and equal networks should be equal files
    text = {"bitspike": json.dumps(metadata)}

    def write(to: Path) -> None:
        try:
            safetensors.torch.save_file(tensors, to, metadata=text)
        except safetensors.SafetensorError as error:
            raise OSError(f"{path} could not be written ({_line(error)}); is the disk full?") from error

    write_atomically(path, write)


def load_weights(path: Path, net: nn.Module) -> None:
    """Read `path` into `net`, whose parameters must be those of the file, by name and shape."""
    safetensors = _safetensors()
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; has the run finished its first epoch?")
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a safetensors file, or is damaged: {_line(error)}") from None
    own = net.state_dict()
    strange = sorted(set(tensors) ^ set(own)) or [
        f"{name} {list(tensors[name].shape)} instead of {list(tensor.shape)}"
        for name, tensor in own.items()
        if tensors[name].shape != tensor.shape
    ]
    if strange:
        raise ValueError(f"{path} holds another network: {', '.join(strange[:3])}{' ...' if strange[3:] else ''}")
    net.load_state_dict(tensors)


def input_shape(path: Path) -> tuple[int, ...]:
    """Of the network whose weights `path` holds."""
    shape = _metadata(path).get("input_shape")
    if not isinstance(shape, list) or not all(isinstance(size, int) and 0 < size < 2**24 for size in shape):
        raise ValueError(f"{path} does not say the shape of the network's input; was it written by bitspike train?")
    return tuple(shape)


def chosen_accuracy(path: Path) -> float:
    """By which the epoch whose weights `path` holds was chosen."""
    accuracy = _metadata(path).get("accuracy")
    if not isinstance(accuracy, float):
        raise ValueError(f"{path} does not say the network's accuracy; was it written by bitspike train?")
    return accuracy


def _metadata(path: Path) -> dict[str, Any]:
    safetensors = _safetensors()
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; has the run finished its first epoch?")
    try:
        with safetensors.safe_open(path, "pt") as file:
            told = json.loads((file.metadata() or {}).get("bitspike", "null"))
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a safetensors file, or is damaged: {_line(error)}") from None
    return told if isinstance(told, dict) else {}


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.torch
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "weights are kept as safetensors, which is not installed; run: pip install 'bitspike[train]'"
        ) from None
    return safetensors


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
