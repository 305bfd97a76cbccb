"""A context that restores a network: all changes by a forward pass or a mode are undone, bit for bit."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (Tensor, nn.Parameter)  # a subclass may carry attributes that a clone would lose


@contextmanager
def unchanged(net: nn.Module) -> Iterator[None]:
    """Restore `net` after the block, also after an error: values, buffers, states, modes; and random generators.

    Inside the block the modules hold clones of their tensors, so that even the version counters of the originals stay:
    a backward pass that needs the originals still works.
    """
    clones: dict[int, Tensor] = {}
    with ExitStack() as undo, torch.random.fork_rng(_gpus()):
        undo.callback(random.setstate, random.getstate())
        if (numpy := sys.modules.get("numpy")) is not None:
            undo.callback(numpy.random.set_state, numpy.random.get_state())
        for module in net.modules():
            if isinstance(module, torch.jit.ScriptModule):  # its tensors are not Python's to replace
                undo.callback(setattr, module, "training", module.training)
                for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                    undo.callback(tensor.detach().copy_, tensor.detach().clone())
                continue
            attributes = vars(module)
            undo.callback(_refill, attributes, dict(attributes))
            for value in attributes.values():
                if isinstance(value, (dict, list, set)):
                    undo.callback(_refill, value, value.copy())
                elif isinstance(value, torch.Generator):
                    undo.callback(value.set_state, value.get_state())
            for holder in [attributes, *(value for value in attributes.values() if isinstance(value, dict))]:
                _hold_clones(holder, clones)
        yield


def _gpus() -> list[int]:
    """Return the GPUs whose random generators a network may advance; none if CUDA is not in use."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


def _refill(container: Any, content: Any) -> None:
    """Restore the content of the same object, because others may hold it too."""
    container.clear()
    (container.extend if isinstance(container, list) else container.update)(content)


@torch.no_grad()
def _hold_clones(holder: dict[str, Any], clones: dict[int, Tensor]) -> None:
    """Replace tensors by clones; a tensor that is held twice gets one clone."""
    for name, value in holder.items():
        if type(value) in _PLAIN:
            if id(value) not in clones:
                clone = value.detach().clone(memory_format=torch.preserve_format)
                clones[id(value)] = nn.Parameter(clone, False) if isinstance(value, nn.Parameter) else clone
            holder[name] = clones[id(value)]


def evaluation_mode(net: nn.Module) -> Callable[[], None]:
    """Call `net.eval()`; return a function that restores the mode of every module, also of a frozen batch norm."""
    modes = [(module, module.training) for module in net.modules()]
    net.eval()

    def back() -> None:
        for module, training in modes:
            module.training = training

    return back
