"""Networks from the paper's notation: blocks of delay, synapse, pool, batch norm, dropout and neurons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from bitspike.nn.block import Block
from bitspike.nn.byte_images import holds_bytes, warn_of_bytes
from bitspike.nn.checked import Check, Checked, setting
from bitspike.nn.decays import DecayRange, draw_decays, require_learnable
from bitspike.nn.delay import Delay
from bitspike.nn.dropout import as_share
from bitspike.nn.fast import triton as fused
from bitspike.nn.fast.refusal import refused_network
from bitspike.nn.glances import at_places, counted, one_after_the_other, require_glances, steps_each
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
from bitspike.nn.neurons import LIF, LeakyReadout, SurrogateCenter
from bitspike.nn.norm import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.notation import Conv, Dense, Layer, parse, require_shape
from bitspike.nn.recording import Recording, SelfReporting, record
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops import Adaptation, Backend, LIFOutput, LIFState, Surrogate
from bitspike.ops.checks import NotFiniteError, as_number, require_clip, require_steps, require_truth
from bitspike.ops.lif.op import require_backend

Norm = Literal["step", "shared"]
_POOLS = {"AP": nn.AvgPool2d, "MP": nn.MaxPool2d}
_NORMS: dict[str, type[StepBatchNorm2d | SharedBatchNorm2d]] = {"step": StepBatchNorm2d, "shared": SharedBatchNorm2d}


class Observed:
    """The last layer's output, and on demand how often each neuron of every layer fired.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("20-10-5")
        >>> seen = net.observe(torch.rand(50, 4, 20))
        >>> [counts.shape for counts in seen.counts()]
        [torch.Size([4, 10]), torch.Size([4, 5])]
    """

    def __init__(self, output: LIFOutput, hidden: Callable[[], Sequence[Tensor]]) -> None:
        self.output = output
        self._hidden = hidden

    def counts(self) -> tuple[Tensor, ...]:
        """Return how often each neuron fired for each sample: `[B, ...]` float32 for each layer, without gradient."""
        with torch.no_grad():
            return *self._hidden(), self.output.spikes.sum(0, dtype=torch.float32)


class SpikingNetwork(SelfReporting, Checked):
    """A network of blocks in a row. `net(x)` gives the last layer's LIFOutput, `run` every layer's; `record()` records.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("8Conv5-AP2-1152Dense10", (1, 28, 28), steps=5)
        >>> net(torch.rand(2, 1, 28, 28)).spikes.shape  # [T, B, classes]
        torch.Size([5, 2, 10])
        >>> [layer.spikes.shape for layer in net.run(torch.rand(2, 1, 28, 28))]
        [torch.Size([5, 2, 8, 12, 12]), torch.Size([5, 2, 10])]
        >>> net.neuron_names()
        ['layers.0.lif', 'layers.1.lif']
    """

    checks: ClassVar[Mapping[str, Check]] = {
        "steps": setting(require_steps),
        "glances": lambda net, value: net._require_glances(value),
        "recompute": setting(lambda where, value: require_truth(where, "recompute", value)),
        "input_shape": setting(require_shape),
    }
    _seen_bytes = False  # whether images of 0-255 were warned of

    def __init__(self, layers: Sequence[Block], input_shape: tuple[int, ...], steps: int, notation: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        for i, layer in enumerate(layers):
            layer.dropout.layer = i  # masks drawn from one key differ by layer, and on spikes from those on currents
            if layer.spike_dropout is not None:
                layer.spike_dropout.layer = len(layers) + i
        self.input_shape = input_shape
        self.steps = steps
        self.glances = 1  # places that a static image is shown at in these steps (bitspike.nn.glances)
        self.notation = notation
        self.recompute = False  # on a GPU: keep only hidden spikes for backward, and make the rest again

    def forward(self, x: Tensor, *, steps: int | None = None) -> LIFOutput:
        """Run the network on `[B, *input_shape]`, fed for `steps` (default: the network's), or `[T, B, *input_shape]`.

        With `glances`, an image is shown at each of these places for as many of the steps, from rest.
        """
        if not self._listeners and self._fused(x):
            return self._run_fused(x, steps)[0]
        return self.run(x, steps=steps, keep_hidden_membrane=bool(self._listeners))[-1]

    @property
    def readout(self) -> Readout:
        """What the network answers with: the `spikes` of its last layer, or the `membrane`."""
        return "membrane" if isinstance(self.layers[-1].lif, LeakyReadout) else "spikes"

    def scores(self, x: Tensor, *, steps: int | None = None) -> Tensor:
        """Return a score for each class, `[B, classes]`: the network's answer is the class with the largest.

        A score is the mean over time of the class's spikes, or of (1 - beta) * membrane where the last layer is a
        `LeakyReadout`.

        Examples:
            >>> import torch
            >>> import bitspike
            >>> net = bitspike.build("20-10-5", readout="membrane")
            >>> net.scores(torch.rand(50, 4, 20)).argmax(1).shape  # one class for each of 4 samples
            torch.Size([4])
        """
        return self.output_scores(self(x, steps=steps))

    def output_scores(self, output: LIFOutput) -> Tensor:
        """Return the scores `[B, classes]` of an output that the network gave; see `scores`."""
        last = self.layers[-1].lif
        if isinstance(last, LeakyReadout):
            return last.scores(output)
        return output.spikes.mean(0, dtype=torch.promote_types(output.spikes.dtype, torch.float32))

    def unfused(self, x: Tensor) -> str | None:
        """Return why the network does not run as fused kernels on `x`; None if it does."""
        return refused_network(self._blocks(), x)

    def _fused(self, x: Tensor) -> bool:
        return isinstance(x, Tensor) and x.is_cuda and self.unfused(x) is None

    def _run_fused(self, x: Tensor, steps: int | None) -> tuple[LIFOutput, fused.HiddenSpikes]:
        x, steps = self.shown(x, self._steps(x, steps))
        with torch.cuda.device_of(x):  # kernels are launched on the current device
            output, hidden = fused.run(self._blocks(), x, steps, recompute=self.recompute)
        return one_after_the_other(output, self.glances), hidden

    def _blocks(self) -> list[Block]:
        return cast(list[Block], list(self.layers))

    def observe(self, x: Tensor, *, steps: int | None = None) -> Observed:
        """Call the network; return its output together with every layer's spike counts, as training needs them."""
        if not self._listeners and self._fused(x):
            output, hidden_spikes = self._run_fused(x, steps)
            glances = self.glances
            return Observed(output, lambda: [counted(counts, glances) for counts in hidden_spikes.counts()])
        *hidden, output = self.run(x, steps=steps, keep_hidden_membrane=bool(self._listeners))
        return Observed(output, lambda: [layer.spikes.sum(0, dtype=torch.float32) for layer in hidden])

    def run(
        self,
        x: Tensor,
        *,
        steps: int | None = None,
        states: Sequence[LIFState | None] | None = None,
        keep_hidden_membrane: bool = True,
    ) -> tuple[LIFOutput, ...]:
        """Return every layer's output; `states`, one for each layer, continue an earlier call exactly (streaming)."""
        x, steps = self.shown(x, self._steps(x, steps))
        if states is None:
            states = [None] * len(self.layers)
        elif self.glances > 1:
            raise ValueError(f"SpikingNetwork: each of {self.glances} glances begins at rest; leave states out")
        if len(states) != len(self.layers):
            raise ValueError(f"SpikingNetwork: states must be one a layer, {len(self.layers)}, but are {len(states)}")
        if not x.is_floating_point():
            x = x.to(next(self.parameters()).dtype)
        outputs: list[LIFOutput] = []
        for name, layer, state in zip(self.neuron_names(), self.layers, states, strict=True):
            keep = keep_hidden_membrane or layer is self.layers[-1]
            try:
                outputs.append(layer(x, state, steps=steps, keep_membrane=keep))
            except NotFiniteError as error:
                raise NotFiniteError(f"{name}: {error}") from None
            x, steps = outputs[-1].spikes, None
        outputs = [one_after_the_other(output, self.glances) for output in outputs]
        for listener in self._listeners:
            listener(zip(self.neuron_names(), outputs, strict=True))
        return tuple(outputs)

    def neuron_names(self) -> list[str]:
        """Return the module names of the neuron layers in order: the keys of `record()` and of annealing schedules."""
        return [f"layers.{i}.lif" for i in range(len(self.layers))]

    def record(self) -> AbstractContextManager[Recording]:
        """Record inside a `with` block: each call of the network fills a dict with every layer's output, by name."""
        return record(self)

    def _require_glances(self, glances: int) -> int:
        require_glances("SpikingNetwork", glances, self.input_shape)
        return glances

    def shown(self, x: Tensor, steps: int | None) -> tuple[Tensor, int | None]:
        """Return the input of the layers: images at all places of the glances, and the steps of one glance."""
        if steps is None:
            if self.glances > 1:
                raise ValueError(
                    f"SpikingNetwork: {self.glances} glances are for static images, but the input is a sequence; "
                    "build the network with glances=1"
                )
            return x, None
        return at_places(x, self.glances), steps_each("SpikingNetwork", steps, self.glances)

    def _steps(self, x: Tensor, steps: int | None) -> int | None:
        """Return the number of steps that a static input is fed for, None for a sequence; raise if `x` does not fit."""
        if not isinstance(x, Tensor):
            raise TypeError(
                f"SpikingNetwork: input must be a tensor, but is a {type(x).__name__}; "
                "call torch.as_tensor(x).float() first"
            )
        ending = tuple(x.shape[-len(self.input_shape) :])
        extra = x.dim() - len(self.input_shape)
        if ending != self.input_shape or extra not in (1, 2):
            inner = ", ".join(map(str, self.input_shape))
            raise ValueError(
                f"SpikingNetwork: input must be [B, {inner}] (static) or [T, B, {inner}] (a sequence), "
                f"but has shape {list(x.shape)}"
            )
        if not x.is_floating_point() and not (x.dtype == torch.uint8 and extra == 2):
            raise TypeError(
                f"SpikingNetwork: input must be floating point (or, a sequence of event counts, uint8), but has dtype "
                f"{x.dtype}; call x.float() first (and divide images by 255)"
            )
        weight = next(self.parameters()).dtype
        if x.is_floating_point() and x.dtype != weight and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"SpikingNetwork: input is {x.dtype} but the weights are {weight}; call x.to({weight})")
        if steps is not None:
            require_steps("SpikingNetwork", steps)
        if extra == 1:
            if self._blocks()[0].delay is not None:
                raise ValueError(
                    f"SpikingNetwork: delays need a sequence [T, B, ...], but the input is static, {list(x.shape)}; "
                    "build the network with delays=0"
                )
            if not self._seen_bytes and holds_bytes(x):
                self._seen_bytes = True
                warn_of_bytes(x)
            return self.steps if steps is None else steps
        if steps is not None and steps != x.shape[0]:
            raise ValueError(
                f"SpikingNetwork: the input is a sequence of {x.shape[0]} steps, but steps={steps}; leave it out"
            )
        return None

    def extra_repr(self) -> str:
        shown = f", glances={self.glances}" if self.glances > 1 else ""
        return f"{self.notation!r}, input_shape={self.input_shape}, steps={self.steps}{shown}"


def build(
    notation: str,
    input_shape: tuple[int, ...] | None = None,
    *,
    beta: float | DecayRange | Sequence[float | DecayRange] = 0.9,
    theta: float | Sequence[float] = 1.0,
    slope: float | Sequence[float] = 25.0,
    binary: bool = True,
    clip: float | None = None,
    norm: Norm | None = None,
    dense_norm: bool = False,
    dropout: float | Sequence[float] = 0.0,
    spike_dropout: float | Sequence[float] = 0.0,
    delays: int = 0,
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
    (it acts on the current). `neuron` is the kind of neurons: "lif", "recurrent" (as `recurrent=True`), "adaptive", or
    a function of your own, `lambda layer: MyLIF(**layer.settings)` (`layer` is a `bitspike.nn.NeuronLayer`).
    `surrogate` is the shape of the spikes' gradient, as in `lif`: "fast_sigmoid", "arctan",
    "triangular" or "sigmoid". `norm` is the batch norm of convolutions: statistics per step ("step"), over all time
    ("shared"), or none; `dense_norm` puts one behind every Dense synapse, the last included, with statistics over all
    time; these synapses have no bias. `binary=False` gives the float32 twin. `learn_beta` learns a decay for every neuron of Dense
    layers and one for each convolutional layer; `recurrent` gives Dense layers but the last binary recurrent weights;
    `adaptation` adds adaptive thresholds. `init` is PyTorch's ("torch", as the paper says) or the released code's
    ("released", the default of experiments: that code made the paper's figures).
    With `glances` of 5 or 9 the `steps` of a static image are shared out to it as it is and to it moved
    by a pixel, each from rest. `recompute` saves memory on a GPU: only hidden spikes are kept for the backward pass, as
    bits, and the rest is made again. A `beta` may be a `nn.DecayRange`: a constant decay for each neuron of a Dense
    layer, drawn after all weights. `delays` is the longest delay in steps: an axonal delay for each neuron (before a
    convolution, each channel) that enters a synapse, which learns between 0 and `delays`; the network then takes
    sequences only. `net.layers[i].delay.rounded()` are its whole steps. `spike_dropout` drops spikes of hidden layers
    on their way to the next: one share, or one a hidden layer. With `readout="membrane"` the last layer is a
    `nn.LeakyReadout`, which never fires; `net.scores(x)` reads its membrane. `backend` is a way to compute, for comparisons; `net.to("cuda")` is how a network
    gets to a GPU.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("16Conv5-AP2-32Conv5-AP2-512Dense10", (1, 28, 28), norm="step", steps=10)
        >>> net(torch.rand(4, 1, 28, 28)).spikes.shape  # images [B, C, H, W] are shown for 10 steps
        torch.Size([10, 4, 10])
        >>> net = bitspike.build("700-100-20")
        >>> net(torch.rand(50, 4, 700)).spikes.shape  # a sequence [T, B, 700]
        torch.Size([50, 4, 20])
    """
    layers, input_shape = parse(notation, input_shape)
    if norm is not None and norm not in _NORMS:
        raise ValueError(f"build: norm must be 'step', 'shared' or None, but is {norm!r}")
    require_backend("build", backend)
    truths = (("binary", binary), ("learn_beta", learn_beta), ("recurrent", recurrent), ("dense_norm", dense_norm))
    for name, value in truths:
        require_truth("build", name, value)
    require_readout(readout)
    require_delays(delays)
    require_clip("build", clip)
    require_steps("build", steps)
    require_glances("build", glances, input_shape)
    steps_each("build", steps, glances)
    count = len(layers)
    dense = [i for i, layer in enumerate(layers) if isinstance(layer, Dense)]
    betas = _decays(beta, count, learn=learn_beta)
    thetas, slopes = (_per_layer(name, value, count) for name, value in (("theta", theta), ("slope", slope)))
    dropouts = dict(zip(dense, _shares("dropout", dropout, len(dense), "Dense layer"), strict=True))
    spike_dropouts = [0.0, *_shares("spike_dropout", spike_dropout, count - 1, "hidden layer")]
    factory = neuron_factory(neuron, recurrent=recurrent)
    if readout == "membrane":
        factory = with_readout(factory)
    made: list[LIF] = []

    def neurons(i: int, layer: Layer) -> LIF:
        decay = betas[i]
        if isinstance(decay, DecayRange):
            decay = decay.middle(layer.outputs if isinstance(layer, Dense) else None)
        settings: dict[str, Any] = {
            "beta": decay,
            "theta": thetas[i],
            "slope": slopes[i],
            "surrogate": surrogate,
            "surrogate_center": surrogate_center,
            "learn_beta": learn_beta,
            "neurons": layer.outputs if learn_beta and isinstance(layer, Dense) else None,
            "adaptation": adaptation,
            "backend": backend,
        }
        shape = layer.output if isinstance(layer, Conv) else (layer.outputs,)
        made.append(make_neurons(factory, NeuronLayer(i, i == count - 1, shape, binary, clip, settings), made))
        return made[-1]

    def before(i: int, inputs: int) -> dict[str, Any]:
        """Return what a block has before its synapse."""
        return {"delay": Delay(inputs, delays) if delays else None, "spike_dropout": spike_dropouts[i]}

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
        if isinstance(decay, DecayRange):
            draw_decays(lif, decay, generator)
    return net


def require_delays(delays: object) -> None:
    """Raise unless `delays`, the longest delay of a network in steps, is a whole number >= 0."""
    if isinstance(delays, bool) or not isinstance(delays, int) or delays < 0:
        raise ValueError(
            f"build: delays must be a whole number >= 0, the longest delay in steps, but is {delays!r}; 0 means none"
        )


def _decays(
    beta: float | DecayRange | Sequence[float | DecayRange], count: int, *, learn: bool
) -> list[float | DecayRange]:
    """Return a decay or a range of decays for each neuron layer."""
    given = list(beta) if isinstance(beta, (list, tuple)) else [beta] * count
    # checked as plain numbers, with a number in the place of each range
    plain = _per_layer("beta", [0.5 if isinstance(each, DecayRange) else each for each in given], count)
    for each in given:
        if learn and isinstance(each, DecayRange):
            require_learnable(each)
    return [each if isinstance(each, DecayRange) else value for each, value in zip(given, plain, strict=True)]


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
