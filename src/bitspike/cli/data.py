"""The commands `bitspike data list|fetch|verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bitspike.cli.app import app
from bitspike.cli.console import byte_bars, echo, echo_json, say
from bitspike.cli.options import AsJson
from bitspike.terminal import draw, screen, table

WHAT = "Datasets: what there is, getting and checking it."
sets = typer.Typer(
    help=f"{WHAT} They are kept in the folder BITSPIKE_DATA (default: the system's for a user's data). It may name "
    "several folders, separated as in PATH: those after the first are only read.",
    no_args_is_help=True,
)
app.add_typer(sets, name="data", short_help=WHAT)

Name = Annotated[str, typer.Argument(help="A dataset; `bitspike data list` shows them.")]


@sets.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """List all datasets, and which of them are here."""
    from bitspike.data.locate import status
    from bitspike.data.roots import data_root, read_folders

    known = status()
    if as_json:
        echo_json([_plain(each) for each in known])
        return
    copies = "".join(f"; copies in {folder}" for folder in read_folders())
    echo(f"Datasets (in {data_root()}{copies})")
    made = table(words=["name", "title", "state", "edition"])
    made.columns[0].no_wrap = True
    for each in known:
        made.add_row(each.name, each.title, each.state, each.edition)
    draw(made, screen())


@sets.command()
def fetch(
    name: Name,
    source: Annotated[
        Path | None, typer.Option("--from", help="Take the files from this folder instead of downloading.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Get a dataset: from a folder, from where it lies already, or from its mirrors; resumed and verified."""
    from bitspike.data.fetch import fetch as get

    with byte_bars() as begin:
        found = get(name, source=source, begin=begin)
    if as_json:
        echo_json(_plain(found))
    elif not found.files:
        echo(f"{found.title} is built in: nothing to fetch")
    else:
        echo(f"{found.title} ({found.edition}) is ready in {found.folder}")


@sets.command()
def verify(name: Name, as_json: AsJson = False) -> None:
    """Compute all checksums of a dataset again."""
    from bitspike.data.locate import verify as check

    results = check(name)
    if as_json:
        echo_json([_plain(each) for each in results])
    elif not results:
        echo(f"{name} is built in: nothing to verify")
    else:
        for file, ok, detail in results:
            echo(f"{'ok  ' if ok else 'BAD '} {file}  {detail}")
    if not all(ok for _, ok, _ in results):
        say(f"bitspike: {name} is damaged; run: bitspike data fetch {name}")
        raise typer.Exit(1)


def _plain(value: Any) -> Any:
    """Return a value in JSON's terms: dataclasses as objects, paths as text."""
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
