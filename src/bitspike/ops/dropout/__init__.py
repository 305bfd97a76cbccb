"""Dropout from a key: `reference` is the definition, `triton` its twin; C kernels draw with `draw.h`."""
