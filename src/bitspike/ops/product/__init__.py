"""Products of weights with spikes, event counts or images: currents before the neurons.

- `binarize.py`: the definition of one-bit weights, and of soft ones on their way there.
- `c.py`, `conv.c`: a convolution on spikes with its average pool, on the CPU. `pack.py`, `pack.c`, `pack.h`: spikes as
  bits, which the C kernels read.
- `geometry.py`: how spikes and weights lie in memory for the Triton kernels.
- `triton.py`, `kernels.py`, `kernels_backward.py`, `kernels_weight.py`: exact products on bits and event counts on
  a GPU, and gradients.
- `matmul.py`: dense layers on event counts as one matrix product of the GPU vendor's.
- `conv_pool.py`: a convolution with real weights and its average pool as one convolution.
- `grouped.py`: many small dense layers at once.
"""
