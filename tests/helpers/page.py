"""What tests of the page in a browser do: open it, change its input, and read what it shows."""

import struct
import zlib

import numpy as np


def opened(tab, pages, name, width=1000):
    tab.size(width, 900)
    tab.events.clear()
    tab.open(pages[0] / f"{name}.html")
    tab.wait("document.getElementById('check').className !== ''")
    tab.wait("document.body.dataset.runs >= 1")
    return pages[1][name]


def after(tab, action):
    """Do something and wait until the network has run on what it changed."""
    runs = tab.value("Number(document.body.dataset.runs)")
    action()
    tab.wait(f"Number(document.body.dataset.runs) > {runs}")
    tab.value("new Promise((resolve) => setTimeout(resolve, 60))")  # the run of the last of many changes


def text(tab, selector):
    return tab.value(f"document.querySelector({selector!r}).textContent")


def middle(tab, selector):
    box = tab.value(
        f"(({{left, top, width, height}}) => [left, top, width, height])"
        f"(document.querySelector({selector!r}).getBoundingClientRect())"
    )
    return lambda x, y: (box[0] + x * box[2], box[1] + y * box[3])


def go(tab, step: int) -> None:
    """Show a step."""
    time = "document.getElementById('time')"
    tab.value(f"{time}.value = {step}; {time}.dispatchEvent(new Event('input'))")


def seen(tab) -> np.ndarray:
    """The pixels that the page says the network sees, in the place of the first glance."""
    last = tab.value("Number(document.getElementById('time').max)")
    go(tab, 1)
    image = "document.getElementById('seen').getContext('2d').getImageData(0, 0, 28, 28)"
    pixels = np.array(tab.value(f"[...{image}.data].filter((_, i) => i % 4 === 0)"), np.uint8)
    go(tab, last)
    return pixels


def png(pixels: np.ndarray) -> bytes:
    """A grey PNG."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels.astype(np.uint8))
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def click(tab, selector: str) -> None:
    """Click the first element that fits."""
    tab.value(f"document.querySelector({selector!r}).click()")
