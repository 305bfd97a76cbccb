"""Pictures as arrays: grey or in colour, turned, flattened onto white; damaged ones end in one line."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bitspike.data import pictures
from bitspike.data.pictures import read_picture


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "pgm"])
def test_bytes_stay_bytes(tmp_path, suffix):
    values = np.arange(35, dtype=np.uint8).reshape(5, 7) * 7
    Image.fromarray(values).save(tmp_path / f"a.{suffix}")
    assert np.array_equal(read_picture(tmp_path / f"a.{suffix}"), values[None])


def test_colours_have_three_channels_and_grey_ones_one(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "colour.png")
    assert np.array_equal(read_picture(tmp_path / "colour.png"), values.transpose(2, 0, 1))
    Image.fromarray(values[:, :, :1].repeat(3, 2)).save(tmp_path / "grey.png")
    assert np.array_equal(read_picture(tmp_path / "grey.png"), values[None, :, :, 0])


def test_sixteen_bits_are_scaled(tmp_path):
    Image.fromarray(np.array([[0, 257, 65535]], np.uint16)).save(tmp_path / "wide.png")
    assert read_picture(tmp_path / "wide.png").tolist() == [[[0, 1, 255]]]


def test_what_is_transparent_is_white(tmp_path):
    values = np.zeros((1, 2, 4), np.uint8)
    values[0, 1, 3] = 255
    Image.fromarray(values).save(tmp_path / "clear.png")
    assert read_picture(tmp_path / "clear.png").tolist() == [[[255, 0]]]


def test_a_picture_is_turned_as_its_camera_says(tmp_path):
    values = np.array([[0, 255]], np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(values).save(tmp_path / "turned.png", exif=exif)
    assert read_picture(tmp_path / "turned.png").tolist() == [[[255, 0]]]


def test_too_many_pixels_are_refused_before_they_are_read(tmp_path, monkeypatch):
    Image.new("L", (40, 30)).save(tmp_path / "large.png")
    monkeypatch.setattr(pictures, "MOST_PIXELS", 1000)
    with pytest.raises(ValueError, match="has 40 x 30 pixels, more than the 1,000 that are read"):
        read_picture(tmp_path / "large.png")


def test_more_pixels_than_pillow_opens_are_not_called_damaged(tmp_path, monkeypatch):
    Image.new("1", (40, 30)).save(tmp_path / "huge.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match=r"huge\.png: has more than the 67,108,864 pixels that are read; save it"):
        read_picture(tmp_path / "huge.png")


def test_without_pillow_a_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModuleNotFoundError, match=r"pictures are read by Pillow, .* pip install 'bitspike\[report\]'"):
        read_picture(tmp_path / "a.png")


@given(st.integers(0, 60), st.integers(0, 255))
def test_a_damaged_picture_gives_an_array_or_one_line(tmp_path_factory, place, value):
    path = tmp_path_factory.mktemp("damaged") / "a.png"
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4)).save(path)
    content = bytearray(path.read_bytes())
    content[place] = value
    path.write_bytes(content)
    said = ""
    try:
        assert read_picture(path).dtype == np.uint8
    except ValueError as error:
        said = str(error)
    assert "\n" not in said
    assert not said or said.startswith(str(path))


def test_floating_point_pictures_are_in_0_to_1(tmp_path):
    path = tmp_path / "float.tiff"
    Image.fromarray(np.array([[0, 0.2, 1]], np.float32)).save(path)
    assert read_picture(path).tolist() == [[[0, 51, 255]]]
    for beyond in (200, -1, np.nan, np.inf):
        Image.fromarray(np.array([[0, 0.5, beyond]], np.float32)).save(path)
        with pytest.raises(ValueError, match=r"float.tiff: floating point pixels must be in \[0, 1\], but range over"):
            read_picture(path)


def test_pictures_of_32_bits_say_what_is_white(tmp_path):
    path = tmp_path / "long.tiff"
    Image.fromarray(np.array([[0, 257, 65535]], np.int32)).save(path)
    assert read_picture(path).tolist() == [[[0, 1, 255]]]
    for beyond in (65536, -1):
        Image.fromarray(np.array([[0, beyond]], np.int32)).save(path)
        with pytest.raises(ValueError, match=r"long.tiff: whole-number pixels must be in 0..65535, but range over"):
            read_picture(path)
    Image.fromarray(np.array([[3, 255]], np.int32)).save(path)
    with pytest.raises(ValueError, match=r"long.tiff: its pixels have 32 bits, but range over 3..255: is 255 or 65535"):
        read_picture(path)
    Image.fromarray(np.array([[3, 255]], np.uint16)).save(tmp_path / "dark.png")  # it says its 16 bits
    assert read_picture(tmp_path / "dark.png").tolist() == [[[0, 1]]]


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (3, 4)])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_pictures_can_be_written(tmp_path, size, mode):
    """PyTorch warns of arrays that cannot."""
    Image.new(mode, size, 7 if mode == "L" else (1, 2, 3)).save(tmp_path / "one.png")
    found = read_picture(tmp_path / "one.png")
    assert found.flags.writeable
    assert found.flags.c_contiguous
