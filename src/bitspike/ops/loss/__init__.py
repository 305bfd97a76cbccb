"""The count loss on a GPU. Its definition is `count_loss` in train/losses.py, which also picks this twin.

- `triton.py`, `kernels.py`: loss, gradient and right samples in one kernel.
"""
