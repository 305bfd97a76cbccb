"""Training: losses for your own loop; the loop of `bitspike train` is in its modules."""

from bitspike.train.losses import count_loss, cross_entropy_loss, trace_loss

__all__ = ["count_loss", "cross_entropy_loss", "trace_loss"]
