"""The command `bitspike pretrained`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from bitspike.cli.app import app
from bitspike.cli.console import echo, echo_json
from bitspike.cli.options import AsJson

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
    for each in found:
        for line in _lines(each):
            echo(line)
    echo("use one with: bitspike predict NAME FILE..., or bitspike.pretrained(NAME) in Python")


def _lines(card: Card) -> list[str]:
    """Return what a person asks about a network, in lines that fit a terminal."""
    chosen = f"{card.accuracy_of.removeprefix('test set, ')}; protocol {card.protocol}, seed {card.seed}"
    return [
        f"{card.name}  {card.title}",
        f"  accuracy  {card.accuracy:.2%} of {card.test_samples:,} test samples of {card.data} ({chosen})",
        f"  size      {card.bytes:,} bytes: {card.notation}",
        f"  spikes    {sum(card.spikes.values()):,.0f} a sample, all layers together",
        f"  made by   {card.command}",
        "",
    ]
