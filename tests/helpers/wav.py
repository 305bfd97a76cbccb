"""WAV files as other programs write them."""

import struct
from pathlib import Path

import numpy as np

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE


def packed(samples: np.ndarray, bits: int, code: int = PCM) -> bytes:
    """Samples in -1..1 as bytes of a WAV file."""
    if code == FLOAT:
        return samples.astype(f"<f{bits // 8}").tobytes()
    if bits == 8:
        return np.rint(samples * 127 + 128).astype(np.uint8).tobytes()
    whole = np.rint(samples * (2 ** (bits - 1) - 1)).astype("<i4" if bits > 16 else "<i2")
    return whole.view(np.uint8).reshape(-1, 4)[:, :3].tobytes() if bits == 24 else whole.tobytes()


def wav(data: bytes, *, rate=16000, channels=1, bits=16, code=PCM, size=None, extra=b"", frame=None) -> bytes:
    """A WAV file; `size` is what its header claims, `extra` are chunks before the samples."""
    frame = channels * bits // 8 if frame is None else frame
    form = struct.pack("<HHIIHH", code, channels, rate, rate * frame, frame, bits)
    if code == EXTENSIBLE:
        form += struct.pack("<HHIH", 22, bits, 0, PCM) + bytes(14)
    head = b"fmt " + struct.pack("<I", len(form)) + form + extra
    body = head + b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def word(seconds: float = 0.4, rate: int = 16000, pitch: float = 150.0) -> np.ndarray:
    """Something like a vowel: harmonics of a pitch, loud in the middle."""
    t = np.arange(round(seconds * rate)) / rate
    voice = sum(np.sin(2 * np.pi * pitch * k * t) / k for k in range(1, 12))
    return 0.3 * voice * np.hanning(len(t))


def write_word(path: Path, *, seconds: float = 0.4, rate: int = 16000, pitch: float = 150.0, **how) -> Path:
    """Write a word as 16 bits, or as `how` says."""
    bits, code = how.get("bits", 16), how.get("code", PCM)
    samples = np.repeat(word(seconds, rate, pitch), how.get("channels", 1))
    path.write_bytes(wav(packed(samples, bits, PCM if code == EXTENSIBLE else code), rate=rate, **how))
    return path
