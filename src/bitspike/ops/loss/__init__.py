"""Losses on a GPU: the count loss, and the cross entropy of scores. Their definitions are in train/losses.py.

That file also picks these twins.

- `triton.py`, `kernels.py`: loss, gradient and right samples in one kernel.
"""
