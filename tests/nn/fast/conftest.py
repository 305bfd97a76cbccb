"""Layers that run in C however many of their inputs fire."""

from helpers.layers import however_busy  # noqa: F401 (a fixture)
