"""Facts that a person asks about a network that comes with the package. Only headers are read, without NumPy."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bitspike.deploy.pretrained import pretrained_names, pretrained_path


@dataclass(frozen=True, slots=True)
class Card:
    """A network that comes with the package. `accuracy` is of `test_samples` of `data`; `spikes` are those a sample."""

    name: str
    title: str
    notation: str
    data: str
    accuracy: float
    accuracy_of: str  # which epoch, by which samples
    test_samples: int
    protocol: str
    seed: int
    bytes: int
    spikes: dict[str, float]
    command: str
    versions: str


def cards() -> list[Card]:
    """Return the cards of all networks that come with the package."""
    return [card(name) for name in pretrained_names()]


def card(name: str) -> Card:
    """Return the card of one network."""
    path = pretrained_path(name)
    with path.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    held = json.loads(header["__metadata__"]["bitspike"])
    notes: dict[str, str] = held["metadata"]
    return Card(
        name,
        notes["title"],
        held["notation"],
        notes["data"],
        float(notes["accuracy"]),
        notes["accuracy_of"],
        int(notes["test_samples"]),
        notes["protocol"],
        int(notes["seed"]),
        path.stat().st_size,
        {f"layer {i}": float(each) for i, each in enumerate(notes["spikes"].split(), start=1)},
        notes["command"],
        notes["versions"],
    )
