"""Finds where speech begins and ends in a recording: among silence, the noise of a room, and clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 1000  # a second: the resolution
WINDOW = 10  # steps over which power is measured
SLOW = 8  # steps: two means over so long leave what is below 100 Hz, hum and rumble, which is taken away
QUIET = 1e-3  # of the largest power; below it is silence
FLOOR = 100  # steps: the quietest stretch of this length is the noise of the room
ABOVE_NOISE = 4.0  # times the power of the noise; its own moments stay below that
LOUDEST_NOISE = 0.1  # of the largest power; what is louder counts as speech
CLICK = 60  # steps: a sound that is shorter, and apart from all others, is no word
APART = 200  # steps: longer than the silence within a word, as before the t of "eight"


def endpoints(samples: NDArray[np.float64], rate: int) -> tuple[int, int]:
    """Return the first sample of speech, and the one after its last.

    Speech is what is loud: at least a thousandth of the largest power, and four times the noise of the room. A sound of
    less than 60 ms that is 200 ms apart from all others is a click, and does not count, unless there is nothing else.
    """
    if not len(samples) or not np.isfinite(samples).all():
        raise ValueError(f"Sound: samples must be numbers, one at least, but are {samples[:4]} ({len(samples)} in all)")
    step = max(1, round(rate / STEPS))  # in samples
    power = _power(samples, step)
    noise = ABOVE_NOISE * _quietest(power, FLOOR)
    found: tuple[int, int] | None = None
    while found is None or power.max() > noise:
        largest = power.max()
        loud = np.flatnonzero(power >= max(QUIET * largest, min(noise, LOUDEST_NOISE * largest)))
        sounds = np.split(loud, np.flatnonzero(np.diff(loud) > APART) + 1)
        clicks = [sound for sound in sounds if len(sound) < CLICK]
        if found is None or not clicks:
            found = int(loud[0]) * step, min((int(loud[-1]) + 1) * step, len(samples))
        if not clicks:
            break
        for click in clicks:  # one may be louder than all speech: look again without them
            power[click[0] : click[-1] + 1] = 0
    return found


def _power(samples: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Return the power of the windows around each step, `[ceil(N / step)]`."""
    slow, counts = samples, _sums(np.ones(len(samples)), SLOW * step)
    for _ in range(2):
        slow = _sums(slow, SLOW * step) / counts
    moving = (samples - slow) ** 2
    steps = np.pad(moving, (0, -len(moving) % step)).reshape(-1, step).sum(1)
    return _sums(steps, WINDOW)


def _sums(x: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the sums of windows around each number, `[N]`; what lies outside is 0."""
    before = np.concatenate([[0.0], np.cumsum(x)])
    at = np.arange(len(x))
    first, last = np.maximum(at - width // 2, 0), np.minimum(at + (width - width // 2), len(x))
    found: NDArray[np.float64] = before[last] - before[first]
    return found


def _quietest(power: NDArray[np.float64], width: int) -> float:
    """Return the least mean of a stretch."""
    width = min(width, len(power))
    before = np.concatenate([[0.0], np.cumsum(power)])
    return max(0.0, float((before[width:] - before[:-width]).min())) / width
