"""The kinds of neurons that `build` can make: a table of factories by name, and the argument of a factory.

Another kind is a class in neurons.py and an entry in `NEURONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bitspike.nn.neurons import LIF, AdaptiveLIF, LeakyReadout, RecurrentLIF

Readout = Literal["spikes", "membrane"]
NORMED_SHARE = 0.3  # of the gradient through scaled feedback: with all of it gradients grow from step to step


@dataclass(frozen=True, slots=True)
class NeuronLayer:
    """The layer that a factory makes neurons for: `LIF(**layer.settings)` are its plain neurons.

    Examples:
        >>> import bitspike
        >>> def my_neurons(layer: bitspike.nn.NeuronLayer) -> bitspike.LIF:
        ...     return bitspike.LIF(**layer.settings | {"beta": 0.5 if layer.last else 0.75})
        ...
        >>> net = bitspike.build("20-10-5", neuron=my_neurons)
        >>> [layer.lif.beta.item() for layer in net.layers]
        [0.75, 0.5]
    """

    index: int  # of the layer in the network, from 0
    last: bool
    shape: tuple[int, ...]  # of one sample's neurons: (outputs,), or (channels, height, width) of a convolution
    binary: bool  # whether weights, also recurrent ones, have one bit
    clip: float | None
    normed: bool  # whether a batch norm lies before the neurons: currents are of size 1
    settings: dict[str, Any]  # what LIF is made with: beta, theta, slope, ...


NeuronFactory = Callable[[NeuronLayer], LIF]


def _lif(layer: NeuronLayer) -> LIF:
    return LIF(**layer.settings)


def _recurrent(layer: NeuronLayer) -> LIF:
    """Return recurrent neurons for a Dense layer that is not the last, else plain ones."""
    if layer.last or len(layer.shape) > 1:
        return LIF(**layer.settings)
    neurons = layer.shape[0]
    normed = layer.normed and layer.binary
    return RecurrentLIF(
        **layer.settings | {"neurons": neurons},
        binary=layer.binary,
        clip=layer.clip,
        recurrent_scale=neurons**-0.5 if normed else 1.0,
        recurrent_grad=NORMED_SHARE if normed else None,
    )


def _adaptive(layer: NeuronLayer) -> LIF:
    """Return adaptive neurons, with the `adaptation` that was given, if any."""
    settings = dict(layer.settings)
    given = settings.pop("adaptation")
    return AdaptiveLIF(**settings, **({} if given is None else {"rho": given.rho, "strength": given.strength}))


NEURONS: dict[str, NeuronFactory] = {"lif": _lif, "recurrent": _recurrent, "adaptive": _adaptive}


def require_readout(readout: object) -> None:
    """Raise unless `readout` is "spikes" or "membrane"."""
    if readout not in ("spikes", "membrane"):
        raise ValueError(f"build: readout must be 'spikes' or 'membrane', but is {readout!r}")


def with_readout(factory: NeuronFactory) -> NeuronFactory:
    """Return a factory that makes leaky neurons, which never fire, for the last layer, and the given ones before."""

    def made(layer: NeuronLayer) -> LIF:
        return LeakyReadout(**layer.settings | {"adaptation": None}) if layer.last else factory(layer)

    return made


def neuron_factory(neuron: str | NeuronFactory, *, recurrent: bool) -> NeuronFactory:
    """Return the factory of that name, or the given one; `recurrent` is another way to ask for "recurrent"."""
    if recurrent:
        if neuron not in ("lif", "recurrent"):
            raise ValueError(
                f"build: recurrent=True means neuron='recurrent', but neuron is {neuron!r}; leave one of them out"
            )
        neuron = "recurrent"
    if isinstance(neuron, str):
        if neuron in NEURONS:
            return NEURONS[neuron]
        raise ValueError(
            f"build: neuron must be one of {', '.join(NEURONS)}, or a function from a layer to its neurons, "
            f"but is {neuron!r}"
        )
    if not callable(neuron) or isinstance(neuron, type):
        given = f"the class {neuron.__name__}" if isinstance(neuron, type) else repr(neuron)
        name = neuron.__name__ if isinstance(neuron, type) and issubclass(neuron, LIF) else "MyLIF"
        raise TypeError(
            f"build: neuron must be a name or a function from a layer to its neurons, but is {given}; "
            f"write neuron=lambda layer: {name}(**layer.settings)"
        )
    return neuron


def make_neurons(factory: NeuronFactory, layer: NeuronLayer, before: Sequence[LIF]) -> LIF:
    """Return the neurons that the factory makes for a layer; raise unless they are a new LIF, not one of `before`."""
    made = factory(layer)
    for i, other in enumerate(before):
        if made is other:
            raise ValueError(
                f"build: neuron must make new neurons for each layer, but gave layer {layer.index + 1} those of "
                f"layer {i + 1}; write neuron=lambda layer: LIF(**layer.settings)"
            )
    if not isinstance(made, LIF):
        raise TypeError(
            f"build: neuron must make a LIF or a class derived from it, but made a {type(made).__name__} "
            f"for layer {layer.index + 1}"
        )
    return made
