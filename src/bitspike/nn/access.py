"""Access to neurons of all known libraries: their threshold, spikes, membrane and state.

Libraries are recognised by where a class comes from, so that none is imported. Another one is a class here and an entry
in `_LIBRARIES`; annealing, recording and the measured drive then take its layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from bitspike.nn.neurons import LIF
from bitspike.ops import LIFOutput
from bitspike.ops.readout.op import NEVER


class Recorded(NamedTuple):
    """`spikes [T, B, ...]` and `membrane [T, B, ...]` of a layer; None where the layer shows no membrane."""

    spikes: Tensor
    membrane: Tensor | None


class Neurons(ABC):
    """A neuron layer of any known library: `module` keeps its threshold under the name `attribute`."""

    attribute: ClassVar[str]

    def __init__(self, module: Any) -> None:
        self.module = module

    @classmethod
    @abstractmethod
    def recognises(cls, module: nn.Module) -> bool:
        """Return whether `module` is a neuron layer of this library."""

    def read(self) -> float:
        """Return the threshold; it is the mean if each neuron has its own."""
        value = getattr(self.module, self.attribute)
        return value.detach().double().mean().item() if isinstance(value, Tensor) else float(value)

    @torch.no_grad()
    def write(self, theta: float, *, initial: float) -> None:
        """Set the threshold; a surrogate that does not follow it goes to `initial`."""
        value = getattr(self.module, self.attribute)
        if not isinstance(value, Tensor):
            setattr(self.module, self.attribute, theta)
            return
        if not value.is_floating_point():  # snnTorch keeps threshold=1 as a whole number
            setattr(self.module, self.attribute, value.float())
        getattr(self.module, self.attribute).fill_(theta)  # in place: a learnable one stays the optimizer's parameter

    def silence(self) -> None:
        """Set a threshold that is never reached, so that nothing resets the membrane."""
        value = getattr(self.module, self.attribute)
        narrow = isinstance(value, Tensor) and value.dtype == torch.float16  # 1e30 is infinite there, and 0 * inf NaN
        never = torch.finfo(torch.float16).max / 2 if narrow else NEVER
        self.write(never, initial=never)

    def buffers(self) -> list[Tensor]:
        """Return the tensors that hold the threshold."""
        value = getattr(self.module, self.attribute)
        if not isinstance(value, Tensor):
            raise ValueError(
                f"ThresholdAnnealing: the {self.attribute} of a {type(self.module).__name__} must be a tensor to be "
                f"written by others, but is {value!r}; call step() instead"
            )
        return [value]

    def before_call(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Prepare the layer to show its membrane; return the keyword arguments for its call."""
        return kwargs

    @abstractmethod
    def after_call(self, result: Any) -> Recorded:
        """Return the spikes and the membrane, time first, from the `result` of a call of the layer."""

    def restore(self) -> None:  # noqa: B027  (most have nothing to undo)
        """Undo what `before_call` changed, if the call did not end normally."""

    @property
    def rest(self) -> float:
        """The membrane of a neuron without input."""
        return 0.0

    def _unknown(self, result: Any) -> TypeError:
        kind = type(self.module).__name__
        return TypeError(f"a {kind} must give spikes, or spikes and membrane, but gave a {type(result).__name__}")


class _Ours(Neurons):
    """A neuron layer of bitspike; it keeps the surrogate's center beside the threshold."""

    attribute = "theta"

    @classmethod
    def recognises(cls, module: nn.Module) -> bool:
        return isinstance(module, LIF)

    def write(self, theta: float, *, initial: float) -> None:
        self.module.set_theta(theta, initial=initial)

    def buffers(self) -> list[Tensor]:
        layer = self.module
        return [layer.theta, *([layer.theta_grad] if layer.surrogate_center == "current" else [])]

    def before_call(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return kwargs | {"keep_membrane": True} if "keep_membrane" in kwargs else kwargs  # True where it is left out

    def after_call(self, result: Any) -> Recorded:
        if isinstance(result, LIFOutput):
            return Recorded(result.spikes, result.membrane)
        if isinstance(result, Tensor):  # a layer of the user's, which gives the spikes alone
            return Recorded(result, None)
        raise self._unknown(result)


class _SnnTorch(Neurons):
    """A neuron layer of snnTorch: a call is one step and gives (spikes, ..., membrane); with `init_hidden`, spikes."""

    attribute = "threshold"
    whole_sequence = frozenset({"StateLeaky", "LeakyParallel", "LeakyKernel", "AssociativeLeaky"})

    @classmethod
    def recognises(cls, module: nn.Module) -> bool:
        return _from("snntorch", module) and isinstance(getattr(module, "threshold", None), Tensor)

    def after_call(self, result: Any) -> Recorded:
        names = {base.__name__ for base in type(self.module).__mro__}
        whole = bool(names & self.whole_sequence)
        if isinstance(result, Tensor):
            if "StateLeaky" in names:
                raise TypeError(f"a {type(self.module).__name__} gives spikes only if created with output=True")
            spikes, membrane = result, None if whole else getattr(self.module, "mem", None)
        elif isinstance(result, tuple) and len(result) > 1:
            spikes, membrane = result[0], result[-1]
            if isinstance(membrane, tuple):  # DeltaLeaky's: now, and the step before
                membrane = membrane[0]
        else:
            raise self._unknown(result)
        return Recorded(spikes, membrane) if whole else _one_step(spikes, membrane)


class _SpikingJelly(Neurons):
    """A neuron layer of SpikingJelly: a call is one step ("s") or all ("m"); its membrane is that after the reset."""

    attribute = "v_threshold"
    _storing: ClassVar[WeakKeyDictionary[nn.Module, int]] = WeakKeyDictionary()  # how many need `v_seq` of a layer

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._needs = False

    @classmethod
    def recognises(cls, module: nn.Module) -> bool:
        return _from("spikingjelly", module) and isinstance(getattr(module, "v_threshold", None), (int, float, Tensor))

    @property
    def _whole(self) -> bool:
        return getattr(self.module, "step_mode", "s") == "m"

    def before_call(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        needed = self._storing.get(self.module, 0)
        if self._whole and not self._needs and (needed or getattr(self.module, "store_v_seq", True) is False):
            self._needs = self.module.store_v_seq = True
            self._storing[self.module] = needed + 1
        return kwargs

    def after_call(self, result: Any) -> Recorded:
        membrane = getattr(self.module, "v_seq" if self._whole else "v", None)
        self.restore()
        if not isinstance(result, Tensor):
            raise self._unknown(result)
        membrane = membrane if isinstance(membrane, Tensor) else None
        return Recorded(result, membrane) if self._whole else _one_step(result, membrane)

    def restore(self) -> None:
        if not self._needs:
            return
        self._needs, left = False, self._storing.pop(self.module) - 1
        if left:  # another recording has not read it yet
            self._storing[self.module] = left
        else:
            self.module.store_v_seq = False

    @property
    def rest(self) -> float:
        return float(getattr(self.module, "v_reset", None) or 0.0)


_LIBRARIES: tuple[type[Neurons], ...] = (_Ours, _SnnTorch, _SpikingJelly)
_RESETS = {"spikingjelly": "reset", "snntorch": "reset_mem"}
_OLD_STATES = frozenset({"mem", "syn", "syn_exc", "syn_inh"})  # of snnTorch before `reset_mem`


def _one_step(spikes: Tensor, membrane: Any) -> Recorded:
    return Recorded(spikes[None], membrane[None] if isinstance(membrane, Tensor) else None)


def _from(library: str, module: nn.Module) -> bool:
    """Return whether a module's class, or a base of it, comes from the package `library`."""
    return any(base.__module__.partition(".")[0] == library for base in type(module).__mro__)


def neuron_layers(where: str, net: nn.Module) -> dict[str, Neurons]:
    """Return every neuron layer of a known library by name, in module order; `where` names the caller in errors."""
    if not isinstance(net, nn.Module):
        raise TypeError(f"{where}: net must be a torch.nn.Module, but is {_a(net)}")
    found = {name: kind(m) for name, m in net.named_modules() for kind in _LIBRARIES if kind.recognises(m)}
    if not found:
        raise ValueError(
            f"{where}: the network has no neuron layer; bitspike's LIF, snnTorch's neurons (with a `threshold`) "
            "and SpikingJelly's (with a `v_threshold`) are known"
        )
    return found


def _a(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def set_to_rest(net: nn.Module) -> None:
    """Reset the state that modules of other libraries keep between calls; calls of bitspike's modules read none."""
    for module in net.modules():
        for library, method in _RESETS.items():
            if _from(library, module) and callable(reset := getattr(module, method, None)):
                reset()
                break
        else:
            if _from("snntorch", module) and callable(fresh := getattr(module, "init_leaky", None)):
                for name in _OLD_STATES & vars(module).keys():
                    setattr(module, name, fresh())
