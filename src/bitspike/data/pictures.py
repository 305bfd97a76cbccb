"""Pictures (PNG, JPEG and others) as arrays of bytes, read by Pillow."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitspike._lazy import not_installed
from bitspike.text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
FORMATS = (
    "PNG",
    "JPEG",
    "BMP",
    "GIF",
    "WEBP",
    "TIFF",
    "PPM",
)  # of Pillow's many; the others are seldom and less tested
MOST_PIXELS = 1 << 26


def read_picture(path: Path) -> NDArray[np.uint8]:
    """Return a picture `[channels, height, width]`: one channel if all its pixels are grey, else red, green and blue.

    It is turned as its camera says, and what is transparent becomes white. Of an animation the first frame is read.
    """
    image_module, ops = _pillow()
    if not path.is_file():
        raise FileNotFoundError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns above a bound of its own, and raises above twice that
            with image_module.open(path, formats=FORMATS) as opened:
                width, height = opened.size
                if width * height > MOST_PIXELS:
                    raise _RefusedError(f"has {width} x {height} pixels, more than the {MOST_PIXELS:,} that are read")
                return _channels(ops.exif_transpose(opened), opened.format)
    except _RefusedError as error:
        raise ValueError(f"{path}: {error}") from None
    except image_module.DecompressionBombError:  # Pillow does not say its width and height
        raise ValueError(
            f"{path}: has more than the {MOST_PIXELS:,} pixels that are read; save it smaller, the network scales it "
            "down anyway"
        ) from None
    except image_module.UnidentifiedImageError:
        raise ValueError(f"{path}: {_beginning(path)}; give a picture that Pillow reads, such as PNG or JPEG") from None
    except Exception as error:  # Pillow fails in any way on damaged bytes
        line = printable(" ".join(str(error).split()))[:200] or type(error).__name__
        raise ValueError(f"{path}: the picture is damaged or cut short ({line})") from None


class _RefusedError(ValueError):
    """The error for a picture that is whole, but is not read."""


def _beginning(path: Path) -> str:
    with path.open("rb") as stream:
        head = stream.read(8)
    return f"is not a picture: it begins with {head!r}" if head else "is empty"


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError:
        raise not_installed(
            "PIL", "pictures are read by Pillow", extra="report", otherwise="or put the pixels into an npz file"
        ) from None
    return Image, ImageOps


def _channels(image: Any, form: str) -> NDArray[np.uint8]:
    if image.mode.startswith(("I", "F")):  # 16 bits or more: Pillow would clip them at 255
        wide = np.asarray(image, dtype=np.float64)
        _require_range(wide, image.mode, form)
        return np.rint(wide / (65535 if image.mode.startswith("I") else 1) * 255).astype(np.uint8)[None]
    if "A" in image.mode or "transparency" in image.info:
        image = image.convert("RGBA")
        white = image.copy()
        white.paste((255, 255, 255, 255), (0, 0, *image.size))
        white.alpha_composite(image)
        image = white
    values = np.asarray(image.convert("RGB"), dtype=np.uint8).transpose(2, 0, 1)
    grey = (values[0] == values[1]).all() and (values[1] == values[2]).all()
    return np.array(values[:1] if grey else values, order="C")  # a copy: Pillow's own array cannot be written


def _require_range(values: NDArray[np.float64], mode: str, form: str) -> None:
    """Raise unless it is clear which of the values is white: 1 of floating point, 65535 of whole numbers."""
    low, high = values.min(), values.max()
    if mode.startswith("F"):
        if not (low >= 0 and high <= 1):  # or not a number
            raise _RefusedError(
                f"floating point pixels must be in [0, 1], but range over {low:g}..{high:g}; save them with 8 bits"
            )
    elif low < 0 or high > 65535:
        raise _RefusedError(
            f"whole-number pixels must be in 0..65535, but range over {low:.0f}..{high:.0f}; save them with 8 bits"
        )
    elif mode == "I" and form == "TIFF" and 0 < high <= 255:  # in other formats, "I" are 16 bits
        raise _RefusedError(
            f"its pixels have 32 bits, but range over {low:.0f}..{high:.0f}: is 255 or 65535 white? Save them with 8 "
            "or 16 bits"
        )
