"""The settings of a network: its layers, neurons, thresholds and surrogate gradient. A TOML file can set each."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bitspike.config import Config, Positive, Real, Truth, Whole
from bitspike.schedules import Constant, Linear, Relax, Schedule

Above0 = Annotated[Real, Field(gt=0, le=1e30)]  # float32 has room for it
Decay = Annotated[Real, Field(ge=0, le=1)]
Drop = Annotated[Real, Field(ge=0, lt=1)]
LongestDelay = Annotated[Whole, Field(ge=0, lt=2**16)]
LargestGain = Annotated[Whole, Field(ge=0, le=255)]


class Rise(Config):
    """A threshold that is annealed upwards: with `rate` or `tau` it relaxes, with `steps` it rises in a line."""

    start: Above0
    """The threshold of the first iteration."""
    stop: Above0
    """The threshold that training ends with; it is above `start`."""
    rate: Annotated[Real, Field(gt=0, le=1)] | None = None
    """The share of the way to `stop` that is gone in one iteration."""
    tau: Above0 | None = None
    """The iterations in which the distance to `stop` falls to 1/e; another way to say `rate`."""
    steps: Positive | None = None
    """The iterations in which the threshold rises in a straight line."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(way is not None for way in (self.rate, self.tau, self.steps)) != 1:
            raise ValueError("a threshold {start, stop, ...} needs one of rate, tau and steps")
        if self.stop <= self.start:
            raise ValueError(
                f"stop must be > start, but they are {self.stop:g} and {self.start:g}: thresholds are annealed "
                f"upwards; write {self.stop:g} for one that stays"
            )
        return self

    def schedule(self) -> Schedule:
        """Return the threshold as a function of the iteration."""
        if self.rate is not None:
            return Relax(self.start, self.stop, self.rate)
        if self.tau is not None:
            return Relax.from_tau(self.start, self.stop, self.tau)
        return Linear(self.start, self.stop, self.steps or 1)


Threshold = Above0 | Rise


class Decays(Config):
    """A range of decays: every neuron of a Dense layer gets its own, drawn uniformly; a convolution gets one."""

    low: Decay
    """The smallest decay."""
    high: Decay
    """The largest decay."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low must be <= high, but they are {self.low:g} and {self.high:g}")
        return self


class NetConfig(Config):
    """A network in the paper's notation. A list has one value for each layer of neurons."""

    notation: str
    """The layers in the paper's notation, such as `"784-300-10"` or `"16Conv5-AP2-64Conv5-AP2-1024Dense10"`.

    A file without it gets Dense layers of its `hidden` widths, or a small network for its kind of data.
    """
    hidden: list[Positive] | None = Field(None, min_length=1)
    """The widths of hidden Dense layers, such as `[256, 256]`, instead of `notation`: the data gives the inputs and the
    classes. A run's experiment.toml holds the notation that it becomes.
    """
    binary: Truth = True
    """Weights are -1 or +1; `false` gives the same network with float32 weights."""
    beta: Decay | Decays | list[Decay | Decays]
    """The share of its membrane that a neuron keeps from one time step to the next: a number, or a table `{low, high}`
    from which a constant is drawn for each neuron of a Dense layer."""
    slope: Above0 | list[Above0]
    """The steepness of the surrogate gradient: a larger one is narrower around the threshold."""
    theta: Threshold | list[Threshold]
    """The threshold at which a neuron fires: a number, or a table `{start, stop, rate}` that is annealed. A last layer
    that is read by its membrane does not use it."""
    dropout: Drop | list[Drop] = 0.0
    """The share of a Dense layer's input current dropped in training. A list has one value for each Dense layer."""
    norm: Literal["step", "shared", "none"] = "none"
    """Batch norm behind convolutions: `step` takes statistics of each time step, `shared` of all steps together."""
    dense_norm: Truth = False
    """Batch norm behind every Dense layer's synapses, the last included, with statistics of all steps together.

    A recipe's threshold of 1 is for currents with batch norm. A file that takes the recipe without it, and gives no
    `theta`, gets thresholds measured as by `bitspike suggest`.
    """
    spike_dropout: Drop | list[Drop] = 0.0
    """The share of hidden layers' spikes dropped in training. A list has one value for each hidden layer."""
    delays: LongestDelay | list[LongestDelay] = 0
    """The longest delay in time steps of a neuron's spikes on their way to the next layer; 0 means no delays. A list
    has one value for the input of each layer. None of over 63 may be longer than a sample.

    Each neuron that enters a layer, inputs included, learns a delay of its own (before a convolution, each channel).
    """
    gains: LargestGain | list[LargestGain] = 0
    """The largest gain, a whole number that multiplies a neuron's spikes on their way to the next layer; 0 means no
    gains. A list has one value for the input of each layer.

    Each neuron that enters a layer, inputs included, learns a gain of its own (before a convolution, each channel). The
    weights keep their one bit. Gains start at a quarter of the largest, so that currents are larger by that factor:
    batch norm evens it out.
    """
    readout: Literal["spikes", "membrane"] = "spikes"
    """The part that decides the class: the `spikes` of the last layer, or the `membrane` of one that never fires.

    A layer that never fires has a threshold like the others, which has no effect.
    """
    # the names of ops/lif/surrogate.py, written out: that module needs torch, and this one loads without it
    surrogate: Literal["fast_sigmoid", "arctan", "triangular", "sigmoid"] = "fast_sigmoid"
    """The shape of the surrogate gradient around the threshold."""
    surrogate_center: Literal["initial", "current"] = "initial"
    """The threshold at which the surrogate gradient is largest: the `initial` one (the paper), or the `current` one."""
    init: Literal["torch", "released"] = "released"
    """The draw of the first weights: as the paper's `released` code does it, or as the `torch` layers do.

    Experiments default to `released`: that code made the paper's figures. `build` defaults to `torch`, because a
    network in your own loop should start as any layer of PyTorch does; the paper's text says so, too.
    """
    clip: Above0 | None = None
    """Latent weights of a larger absolute value get no gradient."""
    steps: Positive = 100
    """The time steps for which a static input is shown."""
    glances: Literal[1, 5, 9] = 1
    """The number of places at which an image is shown, one after the other; they share `steps` equally."""
    learn_beta: Truth = False
    """Train `beta` as well: one value for each neuron of a Dense layer, one for each convolutional layer."""
    recurrent: Truth = False
    """Feed the spikes of each hidden Dense layer back into it, through weights of its own. Such a network is slower,
    and not fused on a GPU."""
    backend: Literal["auto", "reference", "torch", "c", "triton"] = "auto"
    """The code that runs the neurons; `auto` takes the fastest that fits. All give the same spikes."""
    recompute: Truth = False
    """On a GPU, keep only hidden spikes for the backward pass and compute the rest again: less memory, more time."""

    @model_validator(mode="after")
    def _one_description(self) -> Self:
        if self.hidden is not None:
            raise ValueError("net.hidden and net.notation both give the network's layers; give one of them")
        return self

    @model_validator(mode="after")
    def _whole_glances(self) -> Self:
        if self.steps % self.glances:
            raise ValueError(
                f"net.steps must be a multiple of net.glances, {self.glances}, but is {self.steps}; "
                f"{max(self.steps // self.glances, 1) * self.glances} would do, or net.glances = 1"
            )
        return self

    @property
    def longest_delay(self) -> int:
        """The longest delay of any layer's input; 0 if the network has no delays."""
        return max(self.delays, default=0) if isinstance(self.delays, list) else self.delays

    def schedules(self, layers: int) -> list[Schedule]:
        """Return one schedule for each layer of neurons; `layers` is their number."""
        thetas = self.theta if isinstance(self.theta, list) else [self.theta] * layers
        if len(thetas) != layers:
            raise ValueError(
                f"net.theta must be one threshold, or one a neuron layer, {layers} in {self.notation!r}, "
                f"but has {len(thetas)}"
            )
        return [theta.schedule() if isinstance(theta, Rise) else Constant(theta) for theta in thetas]
