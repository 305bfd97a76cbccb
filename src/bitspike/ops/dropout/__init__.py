"""Dropout whose mask is a function of a key, a layer and a place: it is not stored, and can be drawn again.

- `reference.py`: the definition, with the random numbers (Philox).
- `c.py`, `mask.c`: dropout and its mask in C; `draw.h` draws it inside other kernels.
- `triton.py`, `kernels.py`: dropout of a whole current on a GPU.
"""
