"""All data sets by name. A new one is a file in `bitspike/data/sets` and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from bitspike.data.entry import Entry
from bitspike.data.sets import cameras, coding, dvs128, images, shd
from bitspike.text import did_you_mean

_ENTRIES = (images.MNIST, images.FASHION, shd.SHD, dvs128.DVS128, cameras.NMNIST, cameras.DVS_SIGN, coding.CODING)

CATALOG: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def lookup(name: str, catalog: Mapping[str, Entry] = CATALOG) -> Entry:
    """Return the data set `name`; the error for an unknown name lists all names, and the nearest one."""
    if name in catalog:
        return catalog[name]
    raise ValueError(f"unknown data set {name!r}: {did_you_mean(name, catalog)}known are {', '.join(catalog)}")


def usual_edition(name: str | None) -> str | None:
    """Return the edition of the data set `name` that is meant where none is named; None if it is not in the catalog."""
    editions = CATALOG[name].editions if name is not None and name in CATALOG else ()
    return editions[0].name if editions else None


def drawn_from_seed(name: str | None) -> bool:
    """Return True if the seed draws the samples of the data set `name`, so that each seed has its own samples.

    False for a name that is not in the catalog, and for None, which is the user's own data.
    """
    return name is not None and name in CATALOG and CATALOG[name].drawn_from_seed


def labels_are_times(name: str | None) -> bool:
    """Return True if a label of the data set `name` is the time step at which to fire, not a class."""
    return name is not None and name in CATALOG and CATALOG[name].labels == "times"
