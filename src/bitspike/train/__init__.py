"""Training: the losses, for use in your own loop, and the modules that `bitspike train` is made of."""

from typing import TYPE_CHECKING

__all__ = ["count_loss", "cross_entropy_loss", "trace_loss"]

if TYPE_CHECKING:
    from bitspike.train.losses import count_loss, cross_entropy_loss, trace_loss
else:
    from bitspike._lazy import lazy

    __getattr__, __dir__ = lazy(__name__, {"bitspike.train.losses": ["count_loss", "cross_entropy_loss", "trace_loss"]})
