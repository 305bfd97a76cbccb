"""`bitspike preset list|show`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from bitspike.cli.app import AsJson, app, echo_json, echo_lines, screen

presets = typer.Typer(help="The paper's experiments, ready to train.", no_args_is_help=True)
app.add_typer(presets, name="preset")


@presets.command("list")
def list_presets(as_json: AsJson = False) -> None:
    """All presets, with the accuracy that the paper reports."""
    from bitspike.experiments.presets import preset, preset_names
    from bitspike.experiments.schema import as_values

    specs = [preset(name) for name in preset_names()]
    if as_json:
        echo_json([as_values(spec) for spec in specs])
        return
    table = Table()
    table.add_column("bitspike train", no_wrap=True)
    table.add_column("what")
    table.add_column("paper: best / mean / sigma", justify="right", no_wrap=True)
    for spec in specs:
        paper = spec.paper
        figures = f"{paper.best:.2f} / {paper.mean:.2f} / {paper.sigma:.2f}" if paper else "-"
        table.add_row(spec.name, spec.title, figures)
    screen().print(table)


@presets.command()
def show(
    name: Annotated[str, typer.Argument(help="A preset, or a TOML file, which is then checked.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value in place of a field; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """The complete experiment as TOML: every field, with the sources of its figures. It can be saved and trained."""
    from bitspike.experiments.presets import preset_or_file
    from bitspike.experiments.schema import as_toml, as_values

    spec = preset_or_file(name, set_ or [])
    echo_json(as_values(spec)) if as_json else echo_lines(as_toml(spec).rstrip())
