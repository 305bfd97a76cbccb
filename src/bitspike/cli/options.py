"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer


def _a_device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", name):
        raise typer.BadParameter(f"must be auto, cpu, cuda or cuda:N, such as cuda:0, but is {name!r}")
    return name


Device = Annotated[
    str,
    typer.Option(
        metavar="auto|cpu|cuda|cuda:N",
        callback=_a_device,
        help="Where to compute: auto takes a GPU where there is one, cuda:1 the second.",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

Baselines = Annotated[
    bool,
    typer.Option(
        "--baselines", help="Also show what the most frequent class and logistic regression on simple counts reach."
    ),
]

Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value in place of any field of the experiment, such as train.lr=1e-3; repeatable."),
]

SpikeSeed = Annotated[
    int,
    typer.Option("--seed", min=0, max=2**32 - 1, help="Draws which nerve fibres fire: the same seed, the same spikes."),
]

Trim = Annotated[
    bool,
    typer.Option(help="Cut silence, noise and clicks before and after the word; else take the recording as it is."),
]


def require_free(option: str, path: Path, *, force: bool) -> None:
    """Raise if the file that an `option` names must not be written: a folder, or without `force` a file is there."""
    if path.is_dir():
        raise ValueError(f"{option} {path}: this is a folder; give the name of a file")
    if path.exists() and not force:
        raise ValueError(f"{option} {path}: the file exists; take another name, or add --force to write over it")
