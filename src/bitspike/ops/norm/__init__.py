"""Batch norm of every step by its own statistics: T calls of F.batch_norm, and fast twins.

- `reference.py`: the definition, and the running averages that every twin moves.
- `torch.py`: all steps at once in PyTorch operations, on any device; it hands over to `triton.py` on a GPU.
- `c.py`, `norm.c`: all steps at once on the CPU, with PyTorch's bits.
- `triton.py`, `kernels.py`: all steps at once on a GPU, for real currents.
- `triton_integer.py`, `kernels_integer.py`: the batch norm of a network in fused kernels, whose currents are integers;
  there the statistics may also be shared over time.
- `across.py`: a batch that lies in several processes; `c_across.py` and `triton_across.py` exchange its sums.
- `kernels_statistics.py`: from sums to statistics, for both of them.
- `kernels_static.py`: the gradient of a batch norm on a current that is constant in time.
"""
