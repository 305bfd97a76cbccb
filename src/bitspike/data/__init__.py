"""Data: for now the encoders."""

from bitspike.data.encoders import latency, poisson

__all__ = ["latency", "poisson"]
