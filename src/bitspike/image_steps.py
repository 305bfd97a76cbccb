"""For how many steps an image is shown, and at which places: each glance starts at rest, and all spikes count."""

from __future__ import annotations

from numbers import Integral

Place = tuple[int, int]  # rows down, columns to the right

_CROSS: tuple[Place, ...] = ((0, 0), (-1, 0), (0, -1), (0, 1), (1, 0))
_CORNERS: tuple[Place, ...] = ((-1, -1), (-1, 1), (1, -1), (1, 1))
PLACES: dict[int, tuple[Place, ...]] = {1: ((0, 0),), 5: _CROSS, 9: _CROSS + _CORNERS}


def require_steps(where: str, steps: int) -> None:
    """Raise unless `steps` is a whole number >= 1."""
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
        raise ValueError(f"{where}: steps must be a whole number >= 1, but is {steps!r}")


def require_glances(where: str, glances: int, input_shape: tuple[int, ...]) -> None:
    """Raise unless `glances` is 1, 5 or 9; for inputs that are not images it must be 1."""
    if type(glances) is not int or glances not in PLACES:
        raise ValueError(
            f"{where}: glances must be 1, 5 or 9, but is {glances!r}: an image as it is, also moved by a pixel up, "
            "left, right and down, and to the corners between"
        )
    if glances > 1 and len(input_shape) != 3:
        raise ValueError(
            f"{where}: glances are for images [channels, rows, columns], but inputs have shape {list(input_shape)}; "
            "leave glances at 1"
        )


def steps_each(where: str, steps: int, glances: int) -> int:
    """Return the steps of one glance, if all glances together take `steps`."""
    if steps % glances:
        raise ValueError(
            f"{where}: steps must be a multiple of the {glances} glances, but are {steps}; "
            f"{max(steps // glances, 1) * glances} would do, or a single glance"
        )
    return steps // glances
