"""Thin modules: synapses of one bit, neuron layers, and networks from the paper's notation."""

from bitspike.nn.initial import initialize
from bitspike.nn.network import Block, SpikingNetwork, build
from bitspike.nn.neurons import LIF, AdaptiveLIF, RecurrentLIF
from bitspike.nn.norm import SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear

__all__ = [
    "AdaptiveLIF",
    "BinaryConv2d",
    "BinaryLinear",
    "Block",
    "LIF",
    "RecurrentLIF",
    "SharedBatchNorm2d",
    "SpikingNetwork",
    "StepBatchNorm2d",
    "build",
    "initialize",
]
