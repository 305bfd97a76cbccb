"""Thin modules: synapses of one bit, neuron layers, and networks from the paper's notation."""

from bitspike.nn.block import Block
from bitspike.nn.initial import initialize
from bitspike.nn.kinds import NeuronLayer
from bitspike.nn.network import Observed, SpikingNetwork, build
from bitspike.nn.neurons import LIF, AdaptiveLIF, RecurrentLIF
from bitspike.nn.norm import SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.recording import record
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear

__all__ = [
    "AdaptiveLIF",
    "BinaryConv2d",
    "BinaryLinear",
    "Block",
    "LIF",
    "NeuronLayer",
    "Observed",
    "RecurrentLIF",
    "SharedBatchNorm2d",
    "SpikingNetwork",
    "StepBatchNorm2d",
    "build",
    "initialize",
    "record",
]
