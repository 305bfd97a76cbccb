"""Batches of training samples, made on the device where they are used.

- `scatter.py`: the definition of a batch of binned events.
- `jitter.py`: the definition of training images that are moved and made brighter or darker.
- `triton.py`, `kernels.py`: both on a GPU, one kernel each, and what an iteration counts.
"""
