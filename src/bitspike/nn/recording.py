"""Recording of every neuron layer's spikes and membrane, in any network with neurons of a known library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.nn.access import Neurons, Recorded, neuron_layers
from bitspike.ops import LIFOutput

Layers = Iterable[tuple[str, LIFOutput]]


class Recording(dict[str, LIFOutput | Recorded]):
    """The `.spikes` and `.membrane` `[T, B, ...]` of the network's last call, by layer name."""

    def __missing__(self, name: str) -> LIFOutput | Recorded:
        if not self:
            raise KeyError("record: nothing is recorded yet; call the network itself inside the block: net(x)")
        raise KeyError(f"record: the network did not call a neuron layer named {name!r}; recorded: {', '.join(self)}")


class SelfReporting(nn.Module, ABC):
    """A module that reports its neuron layers' outputs itself, because its fast paths do not call each layer."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[Layers], object]] = []

    @contextmanager
    def _reporting_to(self, listener: Callable[[Layers], object]) -> Iterator[None]:
        """Report every layer's name (within this module) and output to `listener` at each call inside the block."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners = [other for other in self._listeners if other is not listener]

    @abstractmethod
    def neuron_names(self) -> list[str]:
        """Return the module names of the layers that this module reports."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, without listeners."""
        return vars(self) | {"_listeners": []}


class _Hook(partial[Any]):
    """A hook of a recording; on a copy of the network it does nothing."""

    def __reduce__(self) -> Any:
        return _Hook, (_nothing,)


def _nothing(*_: Any) -> None:
    pass


def stop_recording(net: nn.Module) -> None:
    """Remove all recordings from `net`; call it inside `unchanged`, which restores them at its end."""
    for module in net.modules():
        if isinstance(module, SelfReporting):
            module._listeners = []
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key in [key for key, hook in hooks.items() if isinstance(hook, _Hook)]:
                del hooks[key]


@contextmanager
def record(net: nn.Module) -> Iterator[Recording]:
    """Record inside a `with` block: each call of `net` fills a dict with every neuron layer's spikes and membrane.

    `net` is any module that holds neurons of bitspike, snnTorch or SpikingJelly, mixed too. Calls of a layer in one
    forward pass of `net` follow each other in time, as in a loop over steps; the next pass fills the dict again. What
    is recorded is part of the graph (`torch.no_grad()` saves its memory). The membrane is what its library shows:
    before the reset, but after it in SpikingJelly, and None where a layer shows none.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("20-10-5")
        >>> with bitspike.record(net) as layers, torch.no_grad():
        ...     out = net(torch.rand(50, 4, 20))
        ...
        >>> list(layers)
        ['layers.0.lif', 'layers.1.lif']
        >>> layers["layers.0.lif"].spikes.shape, layers["layers.0.lif"].membrane.shape
        (torch.Size([50, 4, 10]), torch.Size([50, 4, 10]))
    """
    recording, layers = Recording(), neuron_layers("record", net)
    if isinstance(net, SelfReporting) and net.neuron_names() == list(layers):
        block = net._reporting_to(recording.update)
    else:
        block = _listening(net, layers, recording)
    with block:
        yield recording


@contextmanager
def _listening(net: nn.Module, layers: dict[str, Neurons], recording: Recording) -> Iterator[None]:
    calls_by_layer: dict[str, list[Recorded]] = {name: [] for name in layers}
    reporters = {f"{name}." if name else "": m for name, m in net.named_modules() if isinstance(m, SelfReporting)}
    reported = {prefix + name for prefix, module in reporters.items() for name in module.neuron_names()}

    def begin(*_: Any) -> None:
        for calls in calls_by_layer.values():
            calls.clear()

    def end(*_: Any) -> None:
        recording.clear()
        recording.update((name, joined(name, calls)) for name, calls in calls_by_layer.items() if calls)
        begin()

    def report(prefix: str, outputs: Layers) -> None:
        for name, output in outputs:
            calls_by_layer.setdefault(prefix + name, []).append(Recorded(output.spikes, output.membrane))

    with ExitStack() as block:
        for prefix, module in reporters.items():
            block.enter_context(module._reporting_to(partial(report, prefix)))
        alone = {name: neurons for name, neurons in layers.items() if name not in reported}
        block.enter_context(listening("record", alone, lambda name, call: calls_by_layer[name].append(call)))
        block.callback(net.register_forward_pre_hook(_Hook(begin)).remove)
        block.callback(net.register_forward_hook(_Hook(end)).remove)  # after the layers' own: `net` may be one itself
        yield


@contextmanager
def listening(where: str, layers: dict[str, Neurons], on_call: Callable[[str, Recorded], object]) -> Iterator[None]:
    """Call `on_call(name, spikes and membrane)` for every call of a layer in the block; `where` names the caller."""
    with ExitStack() as block:
        for name, neurons in layers.items():
            block.callback(neurons.restore)
            before = _Hook(_before, neurons)
            after = _Hook(_after, f"{where}: {name}", neurons, partial(on_call, name))
            block.callback(neurons.module.register_forward_pre_hook(before, with_kwargs=True).remove)
            block.callback(neurons.module.register_forward_hook(after).remove)
        yield


def _before(neurons: Neurons, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, neurons.before_call(kwargs)


def _after(
    where: str, neurons: Neurons, on_call: Callable[[Recorded], object], module: nn.Module, args: Any, result: Any
) -> None:
    try:
        call = neurons.after_call(result)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None
    on_call(call)


def require_one_shape(where: str, calls: Iterable[Tensor]) -> None:
    """Raise unless a step has the same shape in all calls of a layer."""
    shapes = {tuple(call.shape[1:]) for call in calls}
    if len(shapes) > 1:
        found = " and ".join(str(list(shape)) for shape in sorted(shapes))
        raise ValueError(
            f"{where} was called with {found} in one forward pass; the calls of a layer follow each other in time "
            "and must be alike, so use a layer for each place"
        )


def joined(name: str, calls: list[Recorded]) -> Recorded:
    """Return the calls of a layer joined in time."""
    if len(calls) == 1:
        return calls[0]
    require_one_shape(f"record: {name}", [call.spikes for call in calls])
    membranes = [call.membrane for call in calls if call.membrane is not None]
    whole = torch.cat(membranes) if len(membranes) == len(calls) else None
    return Recorded(torch.cat([call.spikes for call in calls]), whole)
