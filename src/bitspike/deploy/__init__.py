"""Trained networks outside of PyTorch: packed files of one bit a weight, and what runs them.

- `model.py`: a network as plain arrays: all that an engine or an exporter needs to know.
"""
