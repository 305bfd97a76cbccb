"""The commands `bitspike preset list|show`."""

from __future__ import annotations

from typing import Annotated

import typer

from bitspike.cli.app import app
from bitspike.cli.console import echo_json, echo_lines
from bitspike.cli.options import AsJson
from bitspike.terminal import draw, screen, table

presets = typer.Typer(help="The paper's experiments, ready to train.", no_args_is_help=True)
app.add_typer(presets, name="preset")


@presets.command("list")
def list_presets(as_json: AsJson = False) -> None:
    """List all presets, with the accuracy that the paper reports."""
    from bitspike.experiments.presets import preset, preset_names
    from bitspike.experiments.schema import as_values

    specs = [preset(name) for name in preset_names()]
    if as_json:
        echo_json([as_values(spec) for spec in specs])
        return
    made = table(words=["bitspike train", "what"], numbers=["paper: best", "mean", "sigma"])
    made.columns[0].no_wrap = True
    for spec in specs:
        paper = spec.paper
        figures = [f"{value:.2f}" for value in (paper.best, paper.mean, paper.sigma)] if paper else ["-"] * 3
        made.add_row(spec.name, spec.title, *figures)
    draw(made, screen())


@presets.command()
def show(
    name: Annotated[str, typer.Argument(help="A preset, a recipe (base/sequences), or a TOML file to be checked.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value in place of a field; repeatable.")] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Also the table \\[search]: what `bitspike sweep run` draws, to be edited.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the complete experiment as TOML: every field, with the sources of its figures. Save it and train it."""
    from bitspike.experiments.presets import preset_or_file
    from bitspike.experiments.recipes import BASES, recipe, recipe_toml
    from bitspike.experiments.schema import as_toml, as_values

    if name in BASES and search:
        raise ValueError(f"--search: {name} is a recipe; give a TOML file whose data takes it")
    if name in BASES:
        echo_json(recipe(name)) if as_json else echo_lines(recipe_toml(name).rstrip())
        return
    spec = preset_or_file(name, set_ or [])
    values, text = as_values(spec), as_toml(spec).rstrip()
    if search:
        from bitspike.experiments.sweep.space import space_of
        from bitspike.experiments.sweep.space_files import search_toml

        space = space_of(name, set_ or [])
        values, text = {**values, "search": space.canonical()}, f"{text}\n\n{search_toml(space.parameters)}"
    echo_json(values) if as_json else echo_lines(text)
