"""An extension of griffe, which reads the source for the reference: it prepares docstrings for Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))

from docstring_markdown import as_markdown


class PlainDocstrings(griffe.Extension):
    """Prepare every docstring."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
