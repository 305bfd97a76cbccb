"""`build`: a network from the paper's notation and a few settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from bitspike.image_steps import require_glances, require_steps, steps_each
from bitspike.nn.block import Block
from bitspike.nn.decays import DecayRange, draw_decays, require_learnable
from bitspike.nn.delay import Delay
from bitspike.nn.dropout import as_share
from bitspike.nn.gain import Gain, largest_gains
from bitspike.nn.initial import Init, initialize
from bitspike.nn.kinds import (
    NeuronFactory,
    NeuronLayer,
    Readout,
    make_neurons,
    neuron_factory,
    require_readout,
    with_readout,
)
from bitspike.nn.network import SpikingNetwork
from bitspike.nn.neurons import LIF, SurrogateCenter
from bitspike.nn.norm import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.notation import Conv, Dense, Layer, parse
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops import Adaptation, Backend, Surrogate
from bitspike.ops.checks import MOST_DELAY, as_number, is_whole, require_clip, require_truth
from bitspike.ops.lif.op import require_backend

Decay = float | DecayRange
Norm = Literal["step", "shared"]
_POOLS = {"AP": nn.AvgPool2d, "MP": nn.MaxPool2d}
_NORMS: dict[str, type[StepBatchNorm2d | SharedBatchNorm2d]] = {"step": StepBatchNorm2d, "shared": SharedBatchNorm2d}


def build(
    notation: str,
    input_shape: tuple[int, ...] | None = None,
    *,
    beta: Decay | Sequence[Decay] = 0.9,
    theta: float | Sequence[float] = 1.0,
    slope: float | Sequence[float] = 25.0,
    binary: bool = True,
    clip: float | None = None,
    norm: Norm | None = None,
    dense_norm: bool = False,
    dropout: float | Sequence[float] = 0.0,
    spike_dropout: float | Sequence[float] = 0.0,
    delays: int | Sequence[int] = 0,
    gains: int | Sequence[int] = 0,
    surrogate: Surrogate = "fast_sigmoid",
    surrogate_center: SurrogateCenter = "initial",
    learn_beta: bool = False,
    recurrent: bool = False,
    adaptation: Adaptation | None = None,
    neuron: str | NeuronFactory = "lif",
    readout: Readout = "spikes",
    steps: int = 100,
    glances: int = 1,
    recompute: bool = False,
    init: Init = "torch",
    generator: torch.Generator | None = None,
    backend: Backend = "auto",
) -> SpikingNetwork:
    """Build the network that the paper writes `16Conv5-AP2-64Conv5-AP2-1024Dense10`, for inputs of `input_shape`.

    Beyond the paper, `32Conv3p1s2` is a convolution with a padding of 1 and a stride of 2, `MP3s2` a pool of 3 with a
    stride of 2. `beta`, `theta` and `slope` are one value, or one a neuron layer; `dropout` one, or one a Dense layer
    (it acts on the current). A `beta` may be a `nn.DecayRange`: a constant decay for each neuron of a Dense layer,
    drawn after all weights. `neuron` is the kind of neurons: "lif", "recurrent" (as `recurrent=True`), "adaptive", or
    a function of your own, `lambda layer: MyLIF(**layer.settings)` (`layer` is a `bitspike.nn.NeuronLayer`).
    `surrogate` is the shape of the spikes' gradient, as in `lif`: "fast_sigmoid", "arctan",
    "triangular" or "sigmoid". `norm` is the batch norm of convolutions: statistics per step ("step"), over all time
    ("shared"), or none. `dense_norm` puts a batch norm behind every Dense synapse, the last included, with statistics
    over all time; these synapses have no bias. `binary=False` gives the float32 twin. `learn_beta` learns a decay for
    every neuron of Dense layers and one for each convolutional layer; `recurrent` gives Dense layers but the last
    binary recurrent weights (with `dense_norm` times 1 / sqrt(neurons), so that they suit its currents of size 1);
    `adaptation` adds adaptive thresholds.

    `delays` is the longest delay in steps, or a list with one for the input of each layer (0: none there). Each neuron
    that enters a synapse (before a convolution: each channel) gets a delay between 0 and that, which is learnt;
    `net.layers[i].delay.rounded()` are its whole steps. Such a network takes sequences only. `gains` is the largest
    gain, or a list likewise: each neuron that enters a synapse gets a whole number between 0 and that, which multiplies
    its spikes and is learnt, too (`nn.Gain`). `spike_dropout` drops spikes of hidden layers on their way to the next
    layer: one share, or one a hidden layer. With `readout="membrane"` the last layer is a `nn.LeakyReadout`, which
    never fires: `net.scores(x)` reads its membrane.

    `init` is PyTorch's ("torch", as the paper says) or the released code's ("released", the default of experiments:
    that code made the paper's figures). With `glances` of 5 or 9 the `steps` of a static image are shared out to it as
    it is and to it moved by a pixel, each from rest. `recompute` saves memory on a GPU: only hidden spikes are kept for
    the backward pass, as bits, and the rest is made again. `backend` is a way to compute, for comparisons;
    `net.to("cuda")` is how a network gets to a GPU.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("16Conv5-AP2-32Conv5-AP2-512Dense10", (1, 28, 28), norm="step", steps=10)
        >>> net(torch.rand(4, 1, 28, 28)).spikes.shape  # images [B, C, H, W] are shown for 10 steps
        torch.Size([10, 4, 10])
        >>> net = bitspike.build("700-100-20")
        >>> net(torch.rand(50, 4, 700)).spikes.shape  # a sequence [T, B, 700]
        torch.Size([50, 4, 20])
        >>> net = bitspike.build("700-100-20", delays=25, gains=15, dense_norm=True, readout="membrane")
        >>> net.scores(torch.rand(50, 4, 700)).shape  # [B, classes]
        torch.Size([4, 20])
    """
    layers, input_shape = parse(notation, input_shape)
    if norm is not None and norm not in _NORMS:
        raise ValueError(f"build: norm must be 'step', 'shared' or None, but is {norm!r}")
    require_backend("build", backend)
    truths = (("binary", binary), ("learn_beta", learn_beta), ("recurrent", recurrent), ("dense_norm", dense_norm))
    for name, value in truths:
        require_truth("build", name, value)
    require_readout(readout)
    longest = longest_delays(delays, len(layers), glances)
    largest = largest_gains(gains, len(layers))
    require_clip("build", clip)
    require_steps("build", steps)
    require_glances("build", glances, input_shape)
    steps_each("build", steps, glances)
    count = len(layers)
    dense = [i for i, layer in enumerate(layers) if isinstance(layer, Dense)]
    betas = _decays(beta, count, learn=learn_beta)
    _require_leak(readout, betas[-1])
    thetas, slopes = (_per_layer(name, value, count) for name, value in (("theta", theta), ("slope", slope)))
    dropouts = dict(zip(dense, _shares("dropout", dropout, len(dense), "Dense layer"), strict=True))
    spike_dropouts = [0.0, *_shares("spike_dropout", spike_dropout, count - 1, "hidden layer")]
    if count == 1 and spike_dropout:
        raise ValueError(
            f"build: spike_dropout drops spikes of hidden layers, but {notation!r} has none; leave it at 0"
        )
    factory = neuron_factory(neuron, recurrent=recurrent)
    if readout == "membrane":
        factory = with_readout(factory)
    made: list[LIF] = []

    def neurons(i: int, layer: Layer) -> LIF:
        decay, dense_outputs = betas[i], layer.outputs if isinstance(layer, Dense) else None
        settings: dict[str, Any] = {
            "beta": decay.middle(dense_outputs) if isinstance(decay, DecayRange) else decay,
            "theta": thetas[i],
            "slope": slopes[i],
            "surrogate": surrogate,
            "surrogate_center": surrogate_center,
            "learn_beta": learn_beta,
            "neurons": dense_outputs if learn_beta else None,
            "adaptation": adaptation,
            "backend": backend,
        }
        shape = layer.output if isinstance(layer, Conv) else (layer.outputs,)
        normed = dense_norm if isinstance(layer, Dense) else norm is not None
        made.append(make_neurons(factory, NeuronLayer(i, i == count - 1, shape, binary, clip, normed, settings), made))
        return made[-1]

    def before(i: int, inputs: int) -> dict[str, Any]:
        """Return what a block has before its synapse."""
        way: Backend = "reference" if backend == "reference" else "auto"
        delay = Delay(inputs, longest[i], backend=way) if longest[i] else None
        gain = Gain(inputs, largest[i]) if largest[i] else None
        return {"delay": delay, "gain": gain, "spike_dropout": spike_dropouts[i]}

    def block(i: int, layer: Layer) -> Block:
        if isinstance(layer, Conv):
            return Block(
                BinaryConv2d(
                    layer.inputs,
                    layer.filters,
                    layer.kernel,
                    binary=binary,
                    clip=clip,
                    padding=layer.padding,
                    stride=layer.stride,
                ),
                neurons(i, layer),
                pools=[_POOLS[pool.kind](pool.size, pool.stride) for pool in layer.pools],
                norm=_NORMS[norm](layer.filters) if norm else None,
                **before(i, layer.inputs),
            )
        synapse = BinaryLinear(layer.inputs, layer.outputs, bias=not dense_norm, binary=binary, clip=clip)
        normed = SharedBatchNorm1d(layer.outputs) if dense_norm else None
        return Block(synapse, neurons(i, layer), norm=normed, dropout=dropouts[i], **before(i, layer.inputs))

    # Layers draw weights from the global generator when made; a caller who brings one keeps theirs untouched.
    with torch.random.fork_rng(devices=[], enabled=generator is not None):
        net = SpikingNetwork([block(i, layer) for i, layer in enumerate(layers)], input_shape, steps, notation)
    net.recompute, net.glances = recompute, glances
    if generator is not None or init != "torch":
        initialize(net, init, generator)
    for lif, decay in zip(made, betas, strict=True):
        if isinstance(decay, DecayRange) and not decay.replaced_in(lif):
            draw_decays(lif, decay, generator)
    return net


def longest_delays(delays: object, count: int, glances: int) -> list[int]:
    """Return the longest delay, in steps, of each of `count` layers' inputs; only sequences can be delayed."""
    each: list[Any] = list(delays) if isinstance(delays, (list, tuple)) else [delays] * count
    if not all(is_whole(one) and 0 <= one <= MOST_DELAY for one in each):
        raise ValueError(
            f"build: delays must be a whole number >= 0, the longest delay in steps (at most {MOST_DELAY}), or a list "
            f"with one a layer, but is {delays!r}; 0 means none"
        )
    if len(each) != count:
        raise ValueError(f"build: delays must be one number or one a layer, {count}, but {len(each)} were given")
    if any(each) and glances != 1:
        raise ValueError(f"build: delays need sequences, but glances={glances!r} is for static images; leave one out")
    return [int(one) for one in each]


def _decays(beta: Decay | Sequence[Decay], count: int, *, learn: bool) -> list[Decay]:
    """Return a decay or a range of decays for each neuron layer."""
    given: list[Any] = list(beta) if isinstance(beta, (list, tuple)) else [beta] * count
    if written := [each for each in given if isinstance(each, Mapping)]:
        raise TypeError(
            f"build: a beta must be a number or a range of them, but is {written[0]!r}, as a TOML file has it; pass "
            "bitspike.nn.DecayRange(low, high)"
        )
    ranges = {i: each for i, each in enumerate(given) if isinstance(each, DecayRange)}
    numbers = _per_layer("beta", [0.0 if i in ranges else each for i, each in enumerate(given)], count)
    if learn:
        for each in ranges.values():
            require_learnable(each)
    return [ranges.get(i, number) for i, number in enumerate(numbers)]


def _require_leak(readout: Readout, decay: Decay) -> None:
    """Raise if a membrane readout would keep all of its membrane: its scores, times 1 - beta, would all be 0."""
    if readout == "membrane" and not isinstance(decay, DecayRange) and decay >= 1:
        raise ValueError(f"build: readout='membrane' needs a last beta below 1, but it is {decay!r}; take 0.95")


def _shares(name: str, value: float | Sequence[float], count: int, each: str) -> list[float]:
    """Return the share that each of `count` layers drops."""
    shares = _per_layer(name, value, count, each)
    for share in shares or _per_layer(name, value, 1):
        as_share("build", name, share)
    return shares


def _per_layer(name: str, value: float | Sequence[float], count: int, each: str = "neuron layer") -> list[float]:
    if not isinstance(value, (list, tuple)):
        return [as_number("build", name, value)] * count
    values = [as_number("build", name, v) for v in value]
    if len(values) != count:
        raise ValueError(f"build: {name} must be one number or one a {each}, {count}, but {len(values)} were given")
    return values
