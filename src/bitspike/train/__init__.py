"""Training: for now its losses."""

from bitspike.train.losses import count_loss, cross_entropy_loss, trace_loss

__all__ = ["count_loss", "cross_entropy_loss", "trace_loss"]
