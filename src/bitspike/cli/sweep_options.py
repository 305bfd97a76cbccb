"""Options that the commands on studies share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Study = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a search, the --out of sweep run.")]

Storage = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Where the study is kept, with its password, if the folder's note of it does not suffice."
    ),
]
