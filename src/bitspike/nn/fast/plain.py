"""The definition of a plain layer for the fast paths in C and Triton: reasons why a layer is not plain.

A fast path reads a layer's numbers instead of calling its modules. If such a call would do anything else than its class
says (hooks, its own forward pass, another class), the modules must run. A reason completes the sentence "layer 1 ...".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from bitspike.nn.delay import Delay
from bitspike.nn.dropout import Dropout
from bitspike.nn.gain import Gain
from bitspike.nn.neurons import LIF
from bitspike.nn.norm import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops.checks import is_ordinary
from bitspike.ops.lif.surrogate import GRADS

PARTS = frozenset(("synapse", "pools", "norm", "dropout", "lif", "delay", "gain", "spike_dropout"))  # of a block
_METHODS = frozenset(
    (
        "forward",
        "signs",
        "recurrent_weight",
        "recurrent_factors",
        "pooled",
        "gained",
        "_dropped",
        "_filtered",
        "_conv_forward",
        "rounded",
        "remember",
    )
)  # that fast paths do not call


def watched(module: nn.Module) -> bool:
    """Return whether a call of the module runs hooks: its own, or those on every module."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or torch_module._global_forward_hooks
        or torch_module._global_forward_pre_hooks
        or torch_module._global_backward_hooks
        or torch_module._global_backward_pre_hooks
    )


def redefined(module: nn.Module, *kinds: type[nn.Module]) -> str | None:
    """Return why a call of `module` may compute something else than one of `kinds` does; None if it does not."""
    if type(module) not in kinds:  # a parametrized module has a class of its own, too
        found = f"{type(module).__module__}.{type(module).__qualname__}"
        return f"has a {found} in place of a {' or '.join(kind.__name__ for kind in kinds)}"
    if not _METHODS.isdisjoint(module.__dict__):
        return f"has a {type(module).__name__} with a forward pass of its own"
    return None


def changed(module: nn.Module, *kinds: type[nn.Module]) -> str | None:
    """Return why a call of `module` may act unlike one of `kinds`, because of its class, its methods or hooks."""
    if reason := redefined(module, *kinds):
        return reason
    return f"has a {type(module).__name__} with hooks of its own" if watched(module) else None


def changed_synapse(synapse: nn.Module, device: torch.device) -> str | None:
    """Return why a synapse is not an unchanged one of ours, with float32 parameters on the input's device."""
    if reason := changed(synapse, BinaryLinear, BinaryConv2d):
        return reason
    shape: tuple[int, ...]
    if isinstance(synapse, BinaryConv2d):
        shape = (synapse.out_channels, synapse.in_channels // synapse.groups, *synapse.kernel_size)
    else:
        shape = (synapse.out_features, synapse.in_features)  # type: ignore[assignment]
    # From the dictionary, here and below: every forward pass asks, and attributes of modules are slow to read.
    weight, bias = synapse._parameters.get("weight"), synapse._parameters.get("bias", synapse)
    if not is_ordinary(weight, shape, device):
        return f"has weights of {_described(weight)}"
    if bias is not None and not is_ordinary(bias, shape[:1], device):
        return f"has a bias of {_described(bias)}"
    return None


def changed_norm(norm: nn.Module, device: torch.device) -> str | None:
    """Return why a batch norm is not an unchanged one of ours, whose parameters and averages kernels may use."""
    if reason := changed(norm, StepBatchNorm2d, SharedBatchNorm2d, SharedBatchNorm1d):
        return reason
    shape: tuple[int, ...] = (norm.num_features,)  # type: ignore[assignment]
    for name, part in (*norm._parameters.items(), *norm._buffers.items()):
        if part is not None and name != "num_batches_tracked" and not is_ordinary(part, shape, device):
            return f"has a batch norm with a {name} of {_described(part)}"
    return None


def changed_dropout(dropout: nn.Module) -> str | None:
    """Return why a dropout is not an unchanged one of ours."""
    if reason := changed(dropout, Dropout):
        return reason
    return None if 0 <= dropout.p < 1 else f"has a dropout of {dropout.p}"  # type: ignore[operator]


def changed_delay(delay: nn.Module, neurons: int, device: torch.device) -> str | None:
    """Return why a delay is not an unchanged one of ours, for so many neurons on the input's device."""
    if (reason := changed(delay, Delay)) or not isinstance(delay, Delay):
        return reason
    if delay.backend != "auto":
        return f"asks for backend {delay.backend!r} of its delays"
    for name, part, shape in (("delays", delay.delays, (neurons,)), ("width", delay.width, ())):
        if not is_ordinary(part, shape, device):
            return f"has delays with {name} of {_described(part)}"
    return None


def changed_gain(gain: nn.Module, neurons: int, device: torch.device) -> str | None:
    """Return why a gain is not an unchanged one of ours, for so many neurons on the input's device."""
    if (reason := changed(gain, Gain)) or not isinstance(gain, Gain):
        return reason
    return None if is_ordinary(gain.gains, (neurons,), device) else f"has gains of {_described(gain.gains)}"


def changed_neurons(lif: nn.Module, device: torch.device) -> str | None:
    """Return why neurons are not plain LIF: one fixed threshold for all, and parameters that `lif` accepts."""
    if (reason := changed(lif, LIF)) or not isinstance(lif, LIF):
        return reason
    if lif.adaptation is not None:
        return "has adaptive neurons"
    if type(lif.slope) not in (int, float) or not 0 < lif.slope < math.inf or lif.surrogate not in GRADS:
        return f"has a surrogate {lif.surrogate!r} of slope {lif.slope!r}"
    for name, theta in (
        ("threshold", lif._buffers.get("theta")),
        ("surrogate's center", lif._buffers.get("theta_grad")),
    ):
        if theta is not None and theta.dim():
            return f"has a {name} for each neuron"
        if theta is None or not is_ordinary(theta, (), device) or theta.requires_grad:
            return f"has a {name} of {_described(theta)}"
    return None


def unlike_convolution(conv: BinaryConv2d) -> str | None:
    """Return why `conv` is not a plain convolution: stride 1, no padding, no dilation, no groups."""
    plain = (conv.stride, conv.dilation, conv.groups) == ((1, 1), (1, 1), 1)
    if plain and conv.padding in ((0, 0), "valid"):
        return None
    return "has a convolution with stride, padding, dilation or groups"


def average_size(pool: nn.Module) -> int | None:
    """Return the size of a plain pool (averages of adjacent squares); None for any other pool, or one with hooks."""
    if changed(pool, nn.AvgPool2d) or not isinstance(pool, nn.AvgPool2d):
        return None
    size = pool.kernel_size
    if not isinstance(size, int) or pool.ceil_mode or pool.divisor_override is not None:
        return None
    return size if pool.stride == size and pool.padding == 0 else None


def _described(tensor: object) -> str:
    if not isinstance(tensor, Tensor):
        return "another kind"  # a plain attribute in the place of a parameter
    learnt = ", trained" if tensor.requires_grad else ""
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}{learnt}"
