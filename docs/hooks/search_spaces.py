"""The page "Search spaces", made from `presets/search.toml`: what a sweep of each preset draws, with sources."""

from __future__ import annotations

from markdown_text import code, table

HEAD = """# Search spaces

What `bitspike sweep run PRESET` searches. The paper names what it searched (appendix,
"Hyperparameter search"): decay, threshold, slope, learning rate, gradient and weight clipping,
dropout, batch norm; with annealing, first and final threshold and rate of each layer. It does not
give the ranges: those are ours, and each holds all values of the paper's tables. `rise` is the
distance from the first threshold to the final one, and layers count from 0. Our own recipes
(`best`, `small`, `quick`), and data of your own that takes a base recipe, are searched around their
values. [The table `[search]`](search.md) explains how to write a space.

`bitspike preset show PRESET --search` prints an experiment with its space, ready to be changed.

"""


def search_spaces_page() -> str:
    """Return the page."""
    from bitspike.experiments.sweep.space import Space
    from bitspike.experiments.sweep.space_files import preset_parameters, searchable

    presets: dict[str, list[str]] = {}
    for name in (*searchable(), "base/images", "base/sequences"):
        space = Space(name, preset_parameters(name))
        words = space.words()
        rows = [[code(key), words[key], held.source] for key, held in space.parameters.items()]
        presets.setdefault(table(["parameter", "range", "source"], rows), []).append(name)
    sections = [f"## {', '.join(code(name) for name in names)}\n\n{rows}" for rows, names in presets.items()]
    return HEAD + "\n".join(sections)
