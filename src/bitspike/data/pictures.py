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
            warnings.simplefilter("ignore")  # Pillow's own bound on pixels is above ours
            with image_module.open(path, formats=FORMATS) as opened:
                width, height = opened.size
                if width * height > MOST_PIXELS:
                    raise _TooLargeError(
                        f"{path}: has {width} x {height} pixels, more than the {MOST_PIXELS:,} that are read"
                    )
                return _channels(ops.exif_transpose(opened))
    except _TooLargeError as error:
        raise ValueError(str(error)) from None
    except image_module.UnidentifiedImageError:
        raise ValueError(f"{path}: {_beginning(path)}; give a picture that Pillow reads, such as PNG or JPEG") from None
    except Exception as error:  # Pillow fails in any way on damaged bytes
        line = printable(" ".join(str(error).split()))[:200] or type(error).__name__
        raise ValueError(f"{path}: the picture is damaged or cut short ({line})") from None


class _TooLargeError(ValueError):
    """The error for a picture with too many pixels."""


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


def _channels(image: Any) -> NDArray[np.uint8]:
    if image.mode.startswith(("I", "F")):  # 16 bits or more: Pillow would clip them at 255
        wide = np.asarray(image, dtype=np.float64) / (65535 if image.mode.startswith("I") else 1)
        return np.rint(np.clip(wide, 0, 1) * 255).astype(np.uint8)[None]
    if "A" in image.mode or "transparency" in image.info:
        image = image.convert("RGBA")
        white = image.copy()
        white.paste((255, 255, 255, 255), (0, 0, *image.size))
        white.alpha_composite(image)
        image = white
    values = np.asarray(image.convert("RGB"), dtype=np.uint8).transpose(2, 0, 1)
    grey = (values[0] == values[1]).all() and (values[1] == values[2]).all()
    return np.ascontiguousarray(values[:1] if grey else values)
