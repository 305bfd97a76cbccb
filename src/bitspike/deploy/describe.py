"""`describe`: a PyTorch network as plain arrays, with batch norm folded into a scale and an offset for each channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bitspike.deploy.model import (
    VALUES,
    AdaptationModel,
    Bits,
    Floats,
    InputModel,
    LayerModel,
    NetworkModel,
    PoolModel,
    Shape,
)
from bitspike.deploy.packing.content import require_model
from bitspike.deploy.packing.fields import Invalid
from bitspike.deploy.refusals import refused_layer, refused_network
from bitspike.nn import Block, Delay, LeakyReadout, RecurrentLIF, SpikingNetwork
from bitspike.nn.neurons import LIF
from bitspike.nn.norm import fold_norm
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops import binarize


def describe(
    net: SpikingNetwork,
    *,
    input: InputModel = VALUES,
    class_names: Sequence[str] = (),
    metadata: Mapping[str, str] | None = None,
) -> NetworkModel:
    """Return the network that `net` is in evaluation mode, as plain arrays; `net` itself may be in training mode.

    Thresholds are those that it has now, delays and gains are rounded, and weights are signs. Parts that only training
    uses (dropout, surrogates, soft delays, soft weights) are left out. A ValueError says what cannot be described, and
    why.

    Examples:
        >>> import bitspike
        >>> from bitspike.deploy.describe import describe
        >>> model = describe(bitspike.build("20-10-5", theta=2.0), class_names=list("abcde"))
        >>> model.weights, model.layers[0].theta.tolist()
        (250, [2.0])
    """
    if not isinstance(input, InputModel):
        raise TypeError(f"describe: input must be an InputModel, but is {input!r}; write InputModel('image')")
    if isinstance(class_names, str):
        raise TypeError(f"describe: class_names must be a list of names, but is {class_names!r}")
    if reason := refused_network(net):
        raise ValueError(f"describe: the network {reason}")
    layers: list[LayerModel] = []
    shape = tuple(net.input_shape)
    with torch.no_grad():
        for i, block in enumerate(net.layers):
            if reason := refused_layer(block, last=i == len(net.layers) - 1):
                raise ValueError(f"describe: layer {i + 1} {reason}")
            try:
                layers.append(_layer(cast(Block, block), shape))
            except _Misfit as error:
                raise ValueError(f"describe: layer {i + 1} {error}") from None
            shape = layers[-1].output if layers[-1].kind == "conv" else layers[-1].output[:1]
    model = NetworkModel(
        notation=net.notation,
        input_shape=tuple(net.input_shape),
        steps=int(net.steps),
        readout=net.readout,
        layers=tuple(layers),
        glances=net.glances,
        input=input,
        class_names=tuple(class_names),
        metadata=dict(metadata or {}),
    )
    try:
        require_model(model)
    except Invalid as error:
        raise ValueError(f"describe: the network cannot be exported: {error}") from None
    return model


class _Misfit(ValueError):
    """A reason why a layer cannot be described, which its numbers and shapes give."""


def _layer(block: Block, shape: tuple[int, ...]) -> LayerModel:
    """Return a block as arrays; inputs of one step have `shape`."""
    synapse, lif = block.synapse, block.lif
    arrived, product = _product(synapse, shape)
    pools = tuple(_pool(pool) for pool in block.pools)
    output = _pooled(product, pools)
    scale, offset = (None, None) if block.norm is None else map(_float32, fold_norm(block.norm))
    neurons = output if isinstance(synapse, BinaryConv2d) else output[:1]
    return LayerModel(
        kind="conv" if isinstance(synapse, BinaryConv2d) else "dense",
        input=arrived,
        output=output,
        weight=_signs(synapse.weight),
        beta=_per_neuron("decays", lif.beta, neurons),
        theta=None if isinstance(lif, LeakyReadout) else _per_neuron("thresholds", lif.theta, neurons),
        stride=synapse.stride[0] if isinstance(synapse, BinaryConv2d) else 1,
        padding=_padding(synapse) if isinstance(synapse, BinaryConv2d) else 0,
        pools=pools,
        bias=None if synapse.bias is None else _float32(synapse.bias),
        scale=scale,
        offset=offset,
        delays=None if block.delay is None else _delays(block.delay),
        gains=None if block.gain is None else block.gain.rounded().cpu().numpy().astype(np.uint8),
        recurrent=_recurrent(lif, neurons),
        recurrent_scale=_rounded(lif.recurrent_scale) if isinstance(lif, RecurrentLIF) else 1.0,
        adaptation=_adaptation(lif),
    )


def _product(synapse: BinaryLinear | BinaryConv2d, shape: tuple[int, ...]) -> tuple[Shape, Shape]:
    """Return the shapes of what enters the synapse and of what leaves it, before pools."""
    if isinstance(synapse, BinaryLinear):
        arriving = int(np.prod(shape))
        if synapse.in_features != arriving:
            raise _Misfit(f"takes {synapse.in_features} inputs, but {arriving} arrive")
        return (arriving, 1, 1), (synapse.out_features, 1, 1)
    if len(shape) != 3 or shape[0] != synapse.in_channels:
        raise _Misfit(f"takes images of {synapse.in_channels} channels, but {list(shape)} arrives")
    kernel, stride, padding = synapse.kernel_size[0], synapse.stride[0], _padding(synapse)
    rows, columns = ((n + 2 * padding - kernel) // stride + 1 for n in shape[1:])
    return (shape[0], shape[1], shape[2]), (synapse.out_channels, rows, columns)


def _padding(conv: BinaryConv2d) -> int:
    return 0 if isinstance(conv.padding, str) else conv.padding[0]


def _pool(pool: nn.Module) -> PoolModel:
    size, stride = (side[0] if isinstance(side, tuple) else side for side in (pool.kernel_size, pool.stride))
    return PoolModel("average" if isinstance(pool, nn.AvgPool2d) else "max", size, stride)  # type: ignore[arg-type]


def _pooled(shape: Shape, pools: Sequence[PoolModel]) -> Shape:
    channels, rows, columns = shape
    for pool in pools:
        rows, columns = ((n - pool.size) // pool.stride + 1 for n in (rows, columns))
    return channels, rows, columns


def _per_neuron(what: str, values: Tensor, neurons: tuple[int, ...]) -> Floats:
    """Return one number, or one for each neuron, of values that broadcast to the neurons."""
    if values.numel() == 1:
        return _float32(values)
    while values.dim() > len(neurons) and len(values) == 1:  # a batch of one: the same for all samples
        values = values[0]
    try:
        return _float32(values.expand(neurons))
    except RuntimeError:
        raise _Misfit(f"has {what} of shape {list(values.shape)} for neurons of shape {list(neurons)}") from None


def _recurrent(lif: LIF, neurons: tuple[int, ...]) -> Bits | None:
    if not isinstance(lif, RecurrentLIF):
        return None
    if lif.weight.shape != (*neurons, *neurons) or len(neurons) != 1:
        raise _Misfit(f"has recurrent weights of {list(lif.weight.shape)} for neurons of shape {list(neurons)}")
    return _signs(lif.weight)


def _adaptation(lif: LIF) -> AdaptationModel | None:
    if lif.adaptation is None or isinstance(lif, LeakyReadout):
        return None
    return AdaptationModel(lif.adaptation.rho, lif.adaptation.strength)


def _delays(delay: Delay) -> NDArray[np.uint16]:
    steps = delay.rounded().cpu().numpy()
    if steps.max(initial=0) > np.iinfo(np.uint16).max:
        raise _Misfit(f"has a delay of {steps.max()} steps, more than 65535")
    return steps.astype(np.uint16)


def _signs(weight: Tensor) -> Bits:
    return (binarize(weight) > 0).cpu().numpy()


def _float32(values: Tensor) -> Floats:
    return values.detach().to("cpu", torch.float32).flatten().clone().numpy()


def _rounded(value: float) -> float:
    """Return the number that a float32 tensor is multiplied by in PyTorch where `value` stands."""
    return float(np.float32(value))
