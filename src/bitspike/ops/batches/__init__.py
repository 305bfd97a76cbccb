"""Batches of training samples, put together on the device where they are used.

- `scatter.py`: the definition of a batch of binned events; `scatter_triton.py`: its twin on a GPU.
- `jitter.py`: training images moved and made brighter or darker: the definition.
- `triton.py`, `kernels.py`: images gathered and jittered in one kernel on a GPU, and what an iteration counts.
"""
