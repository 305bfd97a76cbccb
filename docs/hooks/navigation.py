"""Navigation from the folders: a new page appears by itself, at the place where its folder's index links to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# Folders in this order; pages that are not written to docs/ but made while the site is built (reference_pages.py).
SECTIONS = {"tutorials": "Tutorials", "how-to": "How-to", "reference": "Reference", "reports": "Reports"}
GENERATED = ("reference/command-line.md", "reference/experiment-fields.md", "reference/search-spaces.md")
FOLDERS = {"api": "Python"}  # folders within a section


def on_config(config: Any) -> Any:
    """Write the navigation: Home, then one entry a section."""
    docs = Path(config.docs_dir)
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} | set(GENERATED)
    sections = [{title: _entries(docs, folder, pages)} for folder, title in SECTIONS.items()]
    config.nav = [{"Home": "index.md"}, *(section for section in sections if any(section.values()))]
    return config


def _entries(docs: Path, folder: str, pages: set[str]) -> list[Any]:
    """Return the pages of a folder: its index, then its folders, then the other pages as the index lists them."""
    inside = sorted(page for page in pages if page.startswith(f"{folder}/"))
    here = [page for page in inside if page.count("/") == folder.count("/") + 1]
    listed = _links(docs / folder / "index.md")
    here.sort(key=lambda page: listed.index(Path(page).name) if Path(page).name in listed else len(listed))
    index = [page for page in here if page.endswith("/index.md")]
    folders = sorted({page.removeprefix(f"{folder}/").partition("/")[0] for page in inside if page not in here})
    nested = [{FOLDERS.get(name, name): _entries(docs, f"{folder}/{name}", pages)} for name in folders]
    return [*index, *nested, *(page for page in here if page not in index)]


def _links(index: Path) -> list[str]:
    """Return the pages of the same folder that an index links to, in order; none where there is no index."""
    return re.findall(r"\]\(([\w-]+\.md)\)", index.read_text(encoding="utf-8")) if index.exists() else []
