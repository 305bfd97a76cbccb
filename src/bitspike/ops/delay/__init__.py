"""Delays of spikes by whole steps, or by a Gaussian over steps whose place is learnt: the op `delay` and its twins.

- `op.py`: `delay` itself: checks its arguments and picks a backend.
- `reference.py`: the definition: the taps, the shift by whole steps and the sum over taps.
- `torch.py`: the same as products of matrices, on any device and for any dtype.
- `c.py`: on the CPU, float32, and `triton.py`: on a GPU, float32; both by the kernels of `ops/filter`.
"""

from bitspike.ops.delay.op import delay

__all__ = ["delay"]
