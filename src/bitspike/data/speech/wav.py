"""Reading of WAV files: whole numbers of 8 to 32 bits or floating point, any sample rate, any number of channels."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bitspike.data.array_files import Refused, read_up_to, readable
from bitspike.data.speech.sound import Sound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
LEAST_RATE, MOST_RATE = 1_000, 768_000
MOST_CHANNELS = 64
LARGEST = 1e39  # float32 holds no larger sample, and squares of much larger ones do not fit float64
SHORTEST_S, LONGEST_S = 0.01, 60.0
# Programs that write to a pipe do not know the length yet, and claim one of these.
UNKNOWN_LENGTH = 0x7FFFF000


@dataclass(frozen=True, slots=True)
class _Format:
    """The format chunk: what one sample is."""

    code: int
    channels: int
    rate: int
    frame: int  # bytes of one sample of all channels
    bits: int


def read_wav(path: str | Path) -> Sound:
    r"""Read a WAV file; several channels are mixed to one, and the mean is taken away.

    Samples have 8, 16, 24 or 32 bits, or are floating point. A recording lasts 10 ms to 60 s, and is not silent.

    Examples:
        >>> import tempfile, wave
        >>> from pathlib import Path
        >>> from bitspike.data import read_wav
        >>> path = Path(tempfile.mkdtemp()) / "a.wav"
        >>> with wave.open(str(path), "wb") as file:
        ...     file.setparams((1, 2, 8000, 0, "NONE", ""))  # one channel of 2 bytes, 8 kHz
        ...     file.writeframes(b"\x00\x20\x00\xe0" * 400)
        >>> recording = read_wav(path)
        >>> recording.rate, recording.seconds, recording.samples[:2].tolist()
        (8000, 0.1, [0.25, -0.25])
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe may never end
        raise ValueError(f"{path} is not a file")
    with path.open("rb") as stream, readable(str(path)):
        head = stream.read(12)
        if not head:
            raise Refused("is empty; a WAV file is needed")
        if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
            raise Refused(f"must be a WAV file, but begins with {head[:12]!r}; convert it first, as with ffmpeg")
        form, data = _chunks(stream)
        return _recording(form, data)


def _chunks(stream: IO[bytes]) -> tuple[_Format, bytearray]:
    """Return the format and the bytes of the samples; other chunks are passed over."""
    form = None
    for name, size in _headers(stream):
        if name == b"fmt ":
            form = _format(stream.read(size + size % 2))
        elif name == b"data":
            if form is None:
                raise Refused("has its samples before their format; the file is damaged")
            return form, _samples(stream, form, size)
        elif len(stream.read(size + size % 2)) < size:
            break
    raise Refused(f"has no {'samples' if form else 'format'}: the file is damaged or cut short, get it again")


def _headers(stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    while len(head := stream.read(8)) == 8:
        yield head[:4], struct.unpack("<I", head[4:])[0]


def _format(data: bytes) -> _Format:
    if len(data) < 16:
        raise Refused("its format is cut short; get the file again")
    code, channels, rate, _, frame, bits = struct.unpack("<HHIIHH", data[:16])
    if code == EXTENSIBLE and len(data) >= 26:
        code = struct.unpack("<H", data[24:26])[0]
    if (code, bits) not in {(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)}:
        raise Refused(
            "must hold whole numbers of 8, 16, 24 or 32 bits, or floating point, but holds "
            f"{bits} bits in format {code}; convert it to 16 bits"
        )
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise Refused(f"its sample rate must be {LEAST_RATE} to {MOST_RATE} Hz, but is {rate}")
    if not 1 <= channels <= MOST_CHANNELS or frame != channels * bits // 8:
        raise Refused(f"must have 1 to {MOST_CHANNELS} channels of {bits} bits, but has {channels} in {frame} bytes")
    return _Format(code, channels, rate, frame, bits)


def _samples(stream: IO[bytes], form: _Format, size: int) -> bytearray:
    most = int(LONGEST_S * form.rate) * form.frame
    data = read_up_to(stream, min(size, most + 1))
    if len(data) > most:
        raise Refused(f"must last at most {LONGEST_S:g} s; cut it into words first")
    if len(data) < size < UNKNOWN_LENGTH:
        raise Refused(
            f"its header promises {size} bytes of samples, but {len(data)} follow: it is cut short, get it again"
        )
    return data


def _recording(form: _Format, data: bytearray) -> Sound:
    import numpy as np

    frames = len(data) // form.frame
    if frames < SHORTEST_S * form.rate:
        what = f"lasts {1000 * frames / form.rate:.3g} ms" if frames else "holds no samples"
        raise Refused(f"must last at least {1000 * SHORTEST_S:g} ms, but {what}")
    values = _numbers(np.frombuffer(data, np.uint8, frames * form.frame), form).reshape(frames, form.channels)
    if not np.isfinite(values).all():
        raise Refused(f"samples must be numbers, but {int((~np.isfinite(values)).sum())} are NaN or infinite")
    if not np.abs(values).max() <= LARGEST:
        raise Refused(
            f"samples must be at most {LARGEST:g} in size, but one has {np.abs(values).max():.3g}; scale them"
        )
    mixed = values.mean(1)
    mixed -= mixed.mean()
    if not np.abs(mixed).max() > 1e-9 * max(1.0, np.abs(values).max()):
        raise Refused("is silent: all samples are the same" + (", or cancel" if form.channels > 1 else ""))
    return Sound(mixed, form.rate, form.channels)


def _numbers(data: NDArray[np.uint8], form: _Format) -> NDArray[Any]:
    """Return samples as float64, whole numbers scaled to -1..1."""
    import numpy as np

    if form.code == FLOAT:
        return data.view(f"<f{form.bits // 8}").astype(np.float64)
    if form.bits == 8:  # the only one without a sign
        return (data.astype(np.float64) - 128) / 128
    if form.bits == 24:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = data.reshape(-1, 3)
        return wide.reshape(-1).view("<i4") / 2.0**31
    return data.view(f"<i{form.bits // 8}") / 2.0 ** (form.bits - 1)
