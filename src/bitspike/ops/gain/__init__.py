"""Gains: how much each sending neuron's spikes count. The op `gain` and its definition.

- `reference.py`: `gain` itself, on any device. Fused networks multiply within the kernels of `ops/filter`.
"""

from bitspike.ops.gain.reference import gain

__all__ = ["gain"]
