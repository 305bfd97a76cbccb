"""A recorded sound, and the part of it that is speech."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What is left before and after a word: with these, digits of espeak-ng last as long as those of SHD regenerated, and
# their spikes are spread over time alike (benchmarks/espeak_digits.py).
BEFORE_S, AFTER_S = 0.06, 0.15


@dataclass(frozen=True, slots=True)
class Sound:
    """A recorded sound: `samples [N]` float64, `rate` of them a second; `channels` says how many were mixed.

    Examples:
        >>> import numpy as np
        >>> from bitspike.data import Sound
        >>> tone = Sound(np.sin(np.arange(16000) / 10), rate=16000)
        >>> tone.seconds
        1.0
        >>> silence = np.zeros(32000)
        >>> longer = Sound(np.concatenate([silence, tone.samples, silence]), rate=16000)
        >>> round(longer.trimmed().seconds, 2)  # the tone with 60 ms before it and 150 ms after it
        1.22
    """

    samples: NDArray[np.float64]
    rate: int
    channels: int = 1

    def __repr__(self) -> str:
        return f"Sound({self.seconds:.3g} s at {self.rate:,} Hz, of {self.channels} channel(s))"

    @property
    def seconds(self) -> float:
        """The length."""
        return len(self.samples) / self.rate

    def trimmed(self) -> Sound:
        """Return the sound from 60 ms before speech begins to 150 ms after it ends; what lacks there is silence.

        `endpoints.py` says what counts as speech.
        """
        import numpy as np

        from bitspike.data.speech.endpoints import endpoints

        first, last = endpoints(self.samples, self.rate)
        before, after = round(BEFORE_S * self.rate), round(AFTER_S * self.rate)
        return replace(self, samples=np.pad(self.samples, (before, after))[first : last + before + after])
