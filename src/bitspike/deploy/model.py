"""A trained network as plain arrays. Every engine and every exporter reads this, and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]  # True is a weight of +1, False is one of -1
Floats = NDArray[np.float32]
Shape = tuple[int, int, int]  # channels, rows, columns; of a row of N neurons (N, 1, 1)


@dataclass(frozen=True, slots=True)
class PoolModel:
    """A pool behind a convolution: the average or the largest of size x size values, every `stride` values."""

    kind: Literal["average", "max"]
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class AdaptationModel:
    """Thresholds that rise with a neuron's own spikes: theta + strength*a, a = rho*a + (1 - rho)*z."""

    rho: float
    strength: float


@dataclass(frozen=True, slots=True, eq=False)
class LayerModel:
    """One layer: delay -> gain -> product with weights of -1/+1 -> pools -> bias -> scale, offset -> neurons.

    Arrays by channel have one number for each output channel; for a dense layer these are its neurons. `beta` and
    `theta` have one number for all neurons, or one for each in the order channels, rows, columns.
    """

    kind: Literal["dense", "conv"]
    input: Shape  # what arrives: of a dense layer (inputs, 1, 1)
    output: Shape  # the neurons: of a dense layer (outputs, 1, 1)
    weight: Bits  # [outputs, inputs], or [filters, channels, kernel, kernel]
    beta: Floats  # [1] or [neurons]
    theta: Floats | None  # [1] or [neurons]; None for neurons that never fire (a leaky readout)
    stride: int = 1
    padding: int = 0
    pools: tuple[PoolModel, ...] = ()
    bias: Floats | None = None  # [channels]
    scale: Floats | None = None  # [channels], with `offset`: a folded batch norm
    offset: Floats | None = None
    delays: NDArray[np.uint16] | None = None  # in whole steps: [inputs], or [channels] before a convolution
    gains: NDArray[np.uint8] | None = None  # what inputs are multiplied by: of the same shape as delays
    recurrent: Bits | None = None  # [neurons, neurons]: row i holds the weights of neuron i's inputs
    recurrent_scale: float = 1.0
    adaptation: AdaptationModel | None = None

    @property
    def neurons(self) -> int:
        """How many neurons the layer has."""
        return math.prod(self.output)

    @property
    def kernel(self) -> int:
        """The side of a convolution's kernel; 1 for a dense layer."""
        return self.weight.shape[-1] if self.kind == "conv" else 1

    @property
    def largest_gain(self) -> int:
        """The largest number that an input is multiplied by, at least 1."""
        return 1 if self.gains is None else max(1, int(self.gains.max(initial=0)))

    @property
    def divisor(self) -> int:
        """The number of values that the average pools take the mean of."""
        return math.prod(pool.size**2 for pool in self.pools if pool.kind == "average")


@dataclass(frozen=True, slots=True)
class InputModel:
    """What the network was trained on, as far as it is known, so that files can be turned into its input.

    Images are bytes that are divided by 255. Events are binned as `bitspike.data.binning.Binning` says, from the time
    `origin` of a sample on: 0, or its first event.
    """

    kind: Literal["image", "events", "values"] = "values"
    bin_us: int | None = None
    steps: int | None = None
    downsample: int = 1
    polarity: bool = True
    clip: int | None = None
    duration_us: int | None = None
    sensor: tuple[int, ...] | None = None
    origin: Literal["zero", "first"] = "zero"


VALUES = InputModel()  # of a network that nobody says more about


@dataclass(frozen=True, slots=True, eq=False)
class NetworkModel:
    """A network of layers in a row. A static input is shown for `steps`, shared out to the `glances`."""

    notation: str
    input_shape: tuple[int, ...]
    steps: int
    readout: Literal["spikes", "membrane"]
    layers: tuple[LayerModel, ...]
    glances: int = 1
    input: InputModel = InputModel()
    class_names: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)  # free text: accuracy, command, versions ...

    @property
    def classes(self) -> int:
        """How many outputs the network has."""
        return self.layers[-1].neurons

    @property
    def weights(self) -> int:
        """How many weights of one bit all layers have together, recurrent ones included."""
        return sum(
            layer.weight.size + (0 if layer.recurrent is None else layer.recurrent.size) for layer in self.layers
        )


def require_network_model(where: str, model: object) -> None:
    """Raise TypeError unless `model` is a NetworkModel."""
    if not isinstance(model, NetworkModel):
        raise TypeError(
            f"{where}: model must be a NetworkModel, but is a {type(model).__name__}; bitspike.deploy.describe.describe"
            "(net) makes one of a network, and bitspike.load_packed(FILE).model is that of a file"
        )
