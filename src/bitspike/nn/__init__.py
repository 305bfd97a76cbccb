"""PyTorch modules: synapses of one bit, neuron layers, and networks from the paper's notation.

- `building.py`: `build`; `notation.py` reads the notation, `kinds.py` is the table of neuron kinds.
- `network.py`: the network, which runs its blocks.
- `block.py`: one layer of a network, made of `synapses.py`, `norm.py`, `dropout.py` and `neurons.py`.
- `neurons.py`: the kinds of neurons, on top of `lif.py` (`thresholds.py`).
- `delay.py`, `gain.py`: learnt delays and gains of a layer's input, on top of `whole_numbers.py`.
- `decays.py`: decays drawn from a range.
- `fast/`: which layers and networks run in C or Triton, and why not.
- `access.py`: neurons of other libraries. `recording.py`: every layer's spikes. `unchanged.py`: tries without a trace.
- `glances.py`: an image at several places. `initial.py`: initial weights. `sharding.py`: a batch in several processes.
- `checked.py`: settings that are checked where they are set. `byte_images.py`: a warning for images of 0 to 255.
"""

from bitspike.nn.block import Block
from bitspike.nn.building import build
from bitspike.nn.decays import DecayRange
from bitspike.nn.delay import Delay
from bitspike.nn.gain import Gain
from bitspike.nn.initial import initialize
from bitspike.nn.kinds import NeuronLayer
from bitspike.nn.network import Observed, SpikingNetwork
from bitspike.nn.neurons import LIF, AdaptiveLIF, LeakyReadout, RecurrentLIF
from bitspike.nn.norm import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.recording import record
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear

__all__ = [
    "AdaptiveLIF",
    "BinaryConv2d",
    "BinaryLinear",
    "Block",
    "DecayRange",
    "Delay",
    "Gain",
    "LIF",
    "LeakyReadout",
    "NeuronLayer",
    "Observed",
    "RecurrentLIF",
    "SharedBatchNorm1d",
    "SharedBatchNorm2d",
    "SpikingNetwork",
    "StepBatchNorm2d",
    "build",
    "initialize",
    "record",
]
