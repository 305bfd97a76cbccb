"""The command `bitspike pretrained`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from bitspike.cli.app import app
from bitspike.cli.console import echo, echo_json
from bitspike.cli.options import AsJson
from bitspike.terminal import draw, screen, table

if TYPE_CHECKING:
    from bitspike.deploy.pretrained.cards import Card


@app.command()
def pretrained(as_json: AsJson = False) -> None:
    """List the trained networks that come with bitspike: accuracy, size, spikes, and the command that made each."""
    from bitspike.deploy.pretrained.cards import cards

    found = cards()
    if as_json:
        echo_json([asdict(each) for each in found])
        return
    made = table(words=["name", "what", "accuracy", "made by"], numbers=["bytes", "spikes a sample"])
    made.columns[0].no_wrap = True
    for each in found:
        made.add_row(
            each.name,
            f"{each.title}: {each.notation}",
            f"{each.accuracy:.2%} of {each.test_samples:,} test samples of {each.data} ({_protocol(each)})",
            each.command,
            f"{each.bytes:,}",
            f"{sum(each.spikes.values()):,.0f}",
        )
    draw(made, screen())
    echo("use one with: bitspike predict NAME FILE..., or bitspike.pretrained(NAME) in Python")


def _protocol(each: Card) -> str:
    chosen = each.accuracy_of.removeprefix("test set, ")
    return f"{chosen}; protocol {each.protocol}, seed {each.seed}"
