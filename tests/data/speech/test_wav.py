"""WAV files of every kind that is read, and one clear line for the others."""

import os
import struct

import numpy as np
import pytest

from bitspike.data import read_wav
from helpers.bad_input import require_clear_line
from helpers.wav import EXTENSIBLE, FLOAT, PCM, packed, wav, word, write_word


@pytest.mark.parametrize(
    ("bits", "code", "error"),
    [(8, PCM, 5e-3), (16, PCM, 2e-5), (24, PCM, 1e-7), (32, PCM, 1e-9), (32, FLOAT, 1e-7), (64, FLOAT, 1e-15)],
)
def test_every_kind_of_number(tmp_path, bits, code, error):
    sound = read_wav(write_word(tmp_path / "a.wav", bits=bits, code=code))
    expected = word() - word().mean()
    assert (sound.rate, sound.channels) == (16000, 1)
    assert np.abs(sound.samples - expected).max() < error * 1.01 + 1 / 2**bits * np.abs(expected).max() * 4


def test_full_scale_of_whole_numbers_is_one(tmp_path):
    for bits, low in ((16, "<h"), (32, "<i")):
        data = struct.pack(low, -(2 ** (bits - 1))) * 400 + bytes(bits // 8) * 400
        (tmp_path / "a.wav").write_bytes(wav(data, bits=bits))
        assert read_wav(tmp_path / "a.wav").samples[[0, -1]].tolist() == [-0.5, 0.5]  # the mean is taken away
    (tmp_path / "a.wav").write_bytes(wav(b"\x00\x00\x80" * 400 + bytes(1200), bits=24))
    assert read_wav(tmp_path / "a.wav").samples[[0, -1]].tolist() == [-0.5, 0.5]
    (tmp_path / "a.wav").write_bytes(wav(b"\x00" * 400 + b"\x80" * 400, bits=8))
    assert read_wav(tmp_path / "a.wav").samples[[0, -1]].tolist() == [-0.5, 0.5]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_a_pipe_is_refused_at_once(tmp_path):
    """Its writer may never come."""
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(ValueError, match=r"pipe\.wav is not a file$"):
        read_wav(tmp_path / "pipe.wav")


@pytest.mark.parametrize("rate", [1000, 8000, 11025, 44100, 48000, 96000, 768000])
def test_any_sample_rate(tmp_path, rate):
    sound = read_wav(write_word(tmp_path / "a.wav", rate=rate, seconds=0.05))
    assert (sound.rate, sound.seconds) == (rate, pytest.approx(0.05, abs=1 / rate))


def test_channels_are_mixed(tmp_path):
    left = word()
    data = packed(np.stack([left, 0 * left], 1).ravel(), 16)
    (tmp_path / "a.wav").write_bytes(wav(data, channels=2))
    sound = read_wav(tmp_path / "a.wav")
    assert sound.channels == 2
    np.testing.assert_allclose(sound.samples, (left - left.mean()) / 2, atol=3e-5)


def test_other_chunks_are_passed_over_and_the_longer_header_is_read(tmp_path):
    expected = read_wav(write_word(tmp_path / "a.wav")).samples
    extra = b"LIST" + struct.pack("<I", 5) + b"INFOx" + b"\x00"  # odd sizes are padded
    for how in ({"extra": extra}, {"code": EXTENSIBLE}, {"size": 0xFFFFFFFF}, {"size": 0x7FFFF000}):
        assert np.array_equal(read_wav(write_word(tmp_path / "b.wav", **how)).samples, expected), how


DATA = packed(word(), 16)
LONG = bytes(2 * 1000 * 61)
BAD = [
    ("empty", b"", "a.wav: | is empty"),
    ("text", b"not a wav at all", "a.wav: | must be a WAV file | b'not a wav at' | convert"),
    ("a flac", b"fLaC" + bytes(60), "a.wav: | must be a WAV file | fLaC"),
    ("another RIFF", b"RIFF\x04\x00\x00\x00AVI ", "a.wav: | must be a WAV file"),
    ("only a head", wav(DATA)[:12], "a.wav: | has no format | cut short"),
    ("half a format", wav(DATA)[:30], "a.wav: | format | cut short"),
    ("no samples", wav(DATA)[:36], "a.wav: | has no samples | cut short"),
    ("cut in the samples", wav(DATA)[:-1000], "a.wav: | promises 12800 bytes | 11800 follow | cut short"),
    ("cut in another chunk", wav(DATA, extra=b"LIST\xff\x00\x00\x00INFO")[:50], "a.wav: | has no samples"),
    ("samples first", b"RIFF\x00\x00\x00\x00WAVEdata\x04\x00\x00\x00abcd", "a.wav: | before their format"),
    ("0 samples", wav(b""), "a.wav: | at least 10 ms | holds no samples"),
    ("5 ms", wav(DATA[:160]), "a.wav: | at least 10 ms | lasts 5 ms"),
    ("silent", wav(bytes(3200)), "a.wav: | silent"),
    ("silent, 8 bits", wav(b"\x80" * 1600, bits=8), "a.wav: | silent"),
    ("constant", wav(b"\x10\x20" * 1600), "a.wav: | silent: all samples are the same"),
    ("cancels", wav(packed(np.stack([word(), -word()], 1).ravel(), 16), channels=2), "a.wav: | silent | cancel"),
    ("too long", wav(LONG, rate=1000), "a.wav: | at most 60 s | cut it into words"),
    ("claims to be longer", wav(LONG, rate=1000, size=2**32 - 1), "a.wav: | at most 60 s"),
    ("12 bits", wav(DATA, bits=12), "a.wav: | 8, 16, 24 or 32 bits | holds 12 bits in format 1 | convert"),
    ("mu-law", wav(DATA, code=7, bits=8), "a.wav: | holds 8 bits in format 7"),
    ("float of 16 bits", wav(DATA, code=FLOAT), "a.wav: | holds 16 bits in format 3"),
    ("rate 0", wav(DATA, rate=0), "a.wav: | sample rate | 1000 to 768000 Hz | is 0"),
    ("no channels", wav(DATA, channels=0), "a.wav: | 1 to 64 channels | has 0"),
    ("a wrong frame", wav(DATA, frame=3), "a.wav: | 16 bits | 1 in 3 bytes"),
    ("nan", wav(packed(np.full(800, np.nan), 32, FLOAT), bits=32, code=FLOAT), "a.wav: | numbers | 800 are NaN"),
    ("too large", wav(packed(word() * 1e200, 64, FLOAT), bits=64, code=FLOAT), "a.wav: | at most 1e+39 | scale them"),
]


@pytest.mark.parametrize(("content", "says"), [pytest.param(*row[1:], id=row[0]) for row in BAD])
def test_bad_files_are_one_clear_line(tmp_path, monkeypatch, content, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.wav").write_bytes(content)
    require_clear_line(lambda: read_wav("a.wav"), ValueError, [part.strip() for part in says.split("|")])


def test_a_missing_file_is_the_systems_error():
    with pytest.raises(FileNotFoundError, match="not-there"):
        read_wav("not-there.wav")
