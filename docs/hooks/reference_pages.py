"""Reference pages that are made while the site is built."""

from mkdocs.structure.files import File


def on_files(files, config):
    """Add the generated pages."""
    for name in ("command-line", "experiment-fields"):
        files.append(File.generated(config, f"reference/{name}.md", content=f"# {name}\n"))
    return files
