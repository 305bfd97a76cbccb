"""Files of the repository that pages link to, such as `../../results/static/curves.png`, become part of the site.

On a page the link is written relative to the page, so that it also works where the repository is browsed. Only
linked files are copied. A link to a file that does not exist stays as it is, and mkdocs reports it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)")
PLACE = "repository"  # where copies lie in the site


def on_files(files: Any, config: Any) -> Any:
    """Add every linked file outside of docs/."""
    for page in list(files.documentation_pages()):
        for target in LINK.findall(page.content_string):
            path = _outside(page.src_uri, target, config)
            if path is not None and files.get_file_from_path(f"{PLACE}/{path}") is None:
                file = File.generated(config, f"{PLACE}/{path}", abs_src_path=str(_root(config) / path))
                files.append(file)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point links at the copies."""

    def copied(link: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, link[1], config)
        if path is None:
            return link[1]
        return posixpath.relpath(f"{PLACE}/{path}", posixpath.dirname(page.file.src_uri) or ".")

    return LINK.sub(copied, markdown)


def _root(config: Any) -> Path:
    return Path(config.docs_dir).parent


def _outside(page: str, target: str, config: Any) -> str | None:
    """Return the path, from the repository's root, of a linked file outside of docs/; None if it is not one."""
    docs = Path(config.docs_dir).name
    path = posixpath.normpath(posixpath.join(docs, posixpath.dirname(page), target))
    if path.startswith(("..", f"{docs}/")) or path.endswith(".md") or not (_root(config) / path).is_file():
        return None
    return path
