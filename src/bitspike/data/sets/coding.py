"""The temporal coding task: one input that the seed draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitspike.data.entry import Entry, SeedSource

if TYPE_CHECKING:
    from bitspike.data.samples import Dataset


def _draw(seed: int) -> Dataset:
    from bitspike.data.coding import coding_task

    return coding_task(seed)


CODING = Entry(
    name="coding",
    title="Temporal coding",
    what="one input of 100 Poisson spike trains, 100 steps, and the time at which to fire; drawn from the seed",
    licence="MIT",
    homepage="",
    citation="",
    classes=1,
    source=SeedSource(_draw),
    labels="times",
)
