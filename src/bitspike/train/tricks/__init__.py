"""Training tricks: each is one file, and one entry in TRICKS."""

from bitspike.train.config import TrainConfig
from bitspike.train.tricks.clips import ClipGradients, ClipLatentWeights, ClipWeights
from bitspike.train.tricks.delays import SharpenDelays, delays_of
from bitspike.train.tricks.harden import Harden
from bitspike.train.tricks.jitter import JitterSamples
from bitspike.train.tricks.mix import MixSamples
from bitspike.train.tricks.recalibrate import Recalibrate
from bitspike.train.tricks.spike_cost import SpikeCost
from bitspike.train.tricks.trick import Setup, Trick

__all__ = ["TRICKS", "Setup", "Trick", "make_tricks", "setting_for", "tricks_for"]

# In the order in which they are made and their hooks are called. JitterSamples takes samples from the set itself, so
# it is the first; Harden marks the soft weights that ClipLatentWeights leaves alone, so it is before that.
TRICKS: tuple[type[Trick], ...] = (
    JitterSamples,
    MixSamples,
    SpikeCost,
    Harden,
    SharpenDelays,
    ClipGradients,
    ClipWeights,
    ClipLatentWeights,
    Recalibrate,
)


def tricks_for(config: TrainConfig, *, delayed: bool = False) -> list[type[Trick]]:
    """Return the tricks that the settings ask for; `delayed` says whether the network has delays."""
    return [trick for trick in TRICKS if setting_for(trick, config, delayed=delayed)]


def setting_for(trick: type[Trick], config: TrainConfig, *, delayed: bool) -> str:
    """Return the name of the setting that asks for a trick, of [train] or of [net]; an empty string if none does."""
    return "net.delays" if trick.for_delays and delayed else trick.asked_by(config)


def make_tricks(setup: Setup) -> list[Trick]:
    """Return the tricks of one run."""
    return [trick(setup) for trick in tricks_for(setup.config, delayed=bool(delays_of(setup.net)))]
