"""Docstrings are plain text with `code` in it: an asterisk is a product, `beta*u`, and not Markdown's emphasis."""

from __future__ import annotations

import re

EXAMPLES = re.compile(r"^Examples:$", re.MULTILINE)


def as_markdown(text: str) -> str:
    """Return a docstring whose asterisks outside of `code` are shown as they are; its examples stay."""
    examples = EXAMPLES.search(text)
    end = examples.start() if examples else len(text)
    parts = text[:end].split("`")
    parts[::2] = [part.replace("*", r"\*") for part in parts[::2]]
    return "`".join(parts) + text[end:]
