"""Training: losses for your own loop; the loop of `bitspike train` is in its modules."""

from typing import TYPE_CHECKING

__all__ = ["count_loss", "cross_entropy_loss", "trace_loss"]

if TYPE_CHECKING:
    from bitspike.train.losses import count_loss, cross_entropy_loss, trace_loss
else:
    from bitspike._lazy import lazy

    __getattr__, __dir__ = lazy(__name__, {"bitspike.train.losses": ["count_loss", "cross_entropy_loss", "trace_loss"]})
