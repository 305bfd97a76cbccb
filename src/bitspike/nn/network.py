"""A network of blocks in a row: it runs them one after the other, or as fused kernels, and reports what they did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from bitspike.image_steps import require_glances, require_steps, steps_each
from bitspike.nn.block import Block
from bitspike.nn.byte_images import holds_bytes, warn_of_bytes
from bitspike.nn.checked import Check, Checked, setting
from bitspike.nn.fast import triton as fused
from bitspike.nn.fast.refusal import refused_network
from bitspike.nn.glances import at_places, counted, one_after_the_other
from bitspike.nn.kinds import Readout
from bitspike.nn.neurons import LeakyReadout
from bitspike.nn.notation import require_shape
from bitspike.nn.recording import Recording, SelfReporting, record
from bitspike.nn.spike_cost import as_cost, charge, gradient_of_spikes
from bitspike.ops import LIFOutput, LIFState
from bitspike.ops.checks import NotFiniteError, require_truth


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
        "spike_cost": lambda net, value: as_cost("SpikingNetwork", value),
    }
    spike_cost: float = 0.0  # of a sample's mean number of hidden spikes: backward passes add this cost's gradient
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
        """The part of the last layer that holds the answer: its `spikes` or its `membrane`."""
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
        sequence = x.dim() == len(self.input_shape) + 2
        return refused_network(self._blocks(), x, len(x) if sequence else 1)

    def _fused(self, x: Tensor) -> bool:
        return isinstance(x, Tensor) and x.is_cuda and self.unfused(x) is None

    def _run_fused(self, x: Tensor, steps: int | None) -> tuple[LIFOutput, fused.HiddenSpikes]:
        x, steps = self.shown(x, self._steps(x, steps))
        with torch.cuda.device_of(x):  # kernels are launched on the current device
            output, hidden = fused.run(
                self._blocks(), x, steps, recompute=self.recompute, spike_cost=self._gradient_of_spikes(x, steps)
            )
        return one_after_the_other(output, self.glances), hidden

    def _gradient_of_spikes(self, x: Tensor, steps: int | None) -> float:
        rows = x.shape[1 if steps is None else 0]
        shard = getattr(self._blocks()[0].dropout, "shard", None)  # another module in its place has none
        return gradient_of_spikes(self.spike_cost, rows, self.glances, shard)

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
        """Return every layer's output; `states`, one for each layer, continue an earlier call exactly (streaming).

        Examples:
            >>> import torch
            >>> import bitspike
            >>> net, x = bitspike.build("20-10-5"), torch.rand(8, 1, 20)  # [T, B, inputs]
            >>> first = net.run(x[:3])
            >>> later = net.run(x[3:], states=[layer.state for layer in first])
            >>> whole = net.run(x)[-1].spikes
            >>> torch.equal(torch.cat([first[-1].spikes, later[-1].spikes]), whole)
            True
        """
        x, steps = self.shown(x, self._steps(x, steps))
        if states is None:
            states = [None] * len(self.layers)
        elif self.glances > 1:
            raise ValueError(f"SpikingNetwork: each of {self.glances} glances begins at rest; leave states out")
        if len(states) != len(self.layers):
            raise ValueError(f"SpikingNetwork: states must be one a layer, {len(self.layers)}, but are {len(states)}")
        if any(isinstance(state, LIFOutput) for state in states):
            raise TypeError(
                "SpikingNetwork: states must be the states of an earlier call's outputs, but are the outputs; pass "
                "states=[layer.state for layer in outputs]"
            )
        if not x.is_floating_point():
            x = x.to(next(self.parameters()).dtype)
        cost = self._gradient_of_spikes(x, steps)
        outputs: list[LIFOutput] = []
        for name, layer, state in zip(self.neuron_names(), self.layers, states, strict=True):
            keep = keep_hidden_membrane or layer is self.layers[-1]
            try:
                outputs.append(layer(x, state, steps=steps, keep_membrane=keep))
            except NotFiniteError as error:
                raise NotFiniteError(f"{name}: {error}") from None
            x, steps = outputs[-1].spikes, None
            if layer is not self.layers[-1]:
                charge(x, cost)
        outputs = [one_after_the_other(output, self.glances) for output in outputs]
        for listener in self._listeners:
            listener(zip(self.neuron_names(), outputs, strict=True))
        return tuple(outputs)

    def neuron_names(self) -> list[str]:
        """Return the module names of the neuron layers in order: the keys of `record()` and of annealing schedules."""
        return [f"layers.{i}.lif" for i in range(len(self.layers))]

    def firing_names(self) -> list[str]:
        """Return the names of the neuron layers that fire: all, but a last one that is read by its membrane.

        Examples:
            >>> import bitspike
            >>> bitspike.build("20-10-5", readout="membrane").firing_names()
            ['layers.0.lif']
        """
        names = self.neuron_names()
        return names if self.readout == "spikes" else names[:-1]

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
            if any(block.delay is not None for block in self._blocks()):
                raise ValueError(
                    f"SpikingNetwork: delays need a sequence [T, B, ...], but the input is static, {list(x.shape)}; "
                    "add the missing axis, or build the network with delays=0"
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
