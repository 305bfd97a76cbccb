"""Training tricks: each is one file, and one entry in TRICKS."""

from bitspike.train.config import TrainConfig
from bitspike.train.tricks.clips import ClipGradients, ClipLatentWeights, ClipWeights
from bitspike.train.tricks.harden import Harden
from bitspike.train.tricks.jitter import JitterImages
from bitspike.train.tricks.recalibrate import Recalibrate
from bitspike.train.tricks.trick import Setup, Trick

__all__ = ["TRICKS", "Setup", "Trick", "make_tricks", "tricks_for"]

# In the order in which they are made and their hooks are called. JitterImages takes images from the samples itself, so
# it is the first; Harden marks the soft weights that ClipLatentWeights leaves alone, so it is before that.
TRICKS: tuple[type[Trick], ...] = (JitterImages, Harden, ClipGradients, ClipWeights, ClipLatentWeights, Recalibrate)


def tricks_for(config: TrainConfig) -> list[type[Trick]]:
    """Return the tricks that the settings ask for."""
    return [trick for trick in TRICKS if trick.asked_by(config)]


def make_tricks(setup: Setup) -> list[Trick]:
    """Return the tricks of one run."""
    return [trick(setup) for trick in tricks_for(setup.config)]
