"""Writing a network as one self-contained web page."""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path

from bitspike.deploy.model import NetworkModel
from bitspike.deploy.page.payload import payload
from bitspike.files import write_text

MOST_BYTES = 300_000

ENGINE = ("layer.js", "run.js")  # also what the worker runs
PARTS = (
    "runner.js",
    "pointer.js",
    "glyphs.js",
    "frame.js",
    "ground.js",
    "image_input.js",
    "patterns.js",
    "events_file.js",
    "saccades.js",
    "digit_pad.js",
    "sequence_input.js",
    "maps.js",
    "rasters.js",
    "answer.js",
    "playback.js",
    "facts.js",
    "page.js",
)


def write_page(model: NetworkModel, path: str | Path, *, title: str | None = None) -> None:
    """Write a page that runs the network in a browser, offline; at most 300 kB.

    `title` heads the page; without one it is the title or the experiment's name in the metadata, else the notation.

    A person draws an image or chooses a file (for networks on sequences: paints or chooses events) and sees the spikes
    of all layers step by step. When it opens, the page runs a test vector and compares every spike with the NumPy
    definition's.
    """
    if model.class_names and len(model.class_names) != model.classes:
        raise ValueError(
            f"write_page: class_names must be {model.classes}, one for each output, but are {len(model.class_names)}"
        )
    title = title or model.metadata.get("title") or model.metadata.get("experiment") or model.notation
    page = _page(model, title)
    size = len(page.encode())
    if size > MOST_BYTES:
        raise ValueError(
            f"write_page: the page would have {size:,} bytes, but at most {MOST_BYTES:,} are written; the network has "
            f"{model.weights:,} weights of one bit, and about 1.2 million fit; export it --to packed or --to c instead"
        )
    write_text(Path(path), page)


def _page(model: NetworkModel, title: str) -> str:
    """Return the text of the page. Each part is put in once, so that nothing inside a part is taken for a mark."""
    parts = {
        "TITLE": html.escape(title),
        "CSS": _read("page.css"),
        "ENGINE": "\n".join(map(script, ENGINE)),
        "PARTS": "\n".join(map(script, PARTS)),
        # In a script element only "</script" and "<!--" have a meaning, and both begin with "<".
        "NETWORK": json.dumps(payload(model), separators=(",", ":")).replace("<", "\\u003c"),
    }
    pieces = _read("page.html").split("@@")
    pieces[1::2] = [parts[name] for name in pieces[1::2]]
    return "".join(pieces)


def script(name: str) -> str:
    """Return a script of the page without comments and indentation, which leaves room for weights."""
    return re.sub(r"^\s*(/\*.*?\*/\s*)*", "", _read(name), flags=re.MULTILINE | re.DOTALL)


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
