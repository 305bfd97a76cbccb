"""Reference pages that are made while the site is built: command line, fields of an experiment, search spaces."""

from __future__ import annotations

from typing import Any

from command_line import command_line_page
from experiment_fields import fields_page
from mkdocs.structure.files import File
from search_spaces import search_spaces_page

PAGES = {
    "command-line": command_line_page,
    "experiment-fields": fields_page,
    "search-spaces": search_spaces_page,
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, made from the package as it is now."""
    for name, page in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files
