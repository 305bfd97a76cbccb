"""The check of a picture's file name, before work whose result is drawn."""

from __future__ import annotations

from pathlib import Path

from bitspike.analysis.traces import require_matplotlib


def require_picture(path: Path) -> None:
    """Raise an error unless a picture can be drawn into this file; call it before work whose result is drawn."""
    if path.suffix.lower() != ".png":
        raise ValueError(f"--out {path}: the picture is a PNG file; give it a name that ends in .png")
    require_matplotlib()
