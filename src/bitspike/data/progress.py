"""The interface for progress: `progress(stage, total)` starts a stage and returns a function that advances it."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int], Callable[[], None]]  # (stage, steps in all) -> advance by one step
ByteProgress = Callable[[str, int | None], Callable[[int], None]]  # (stage, bytes in all) -> advance by so many bytes


def silent(stage: str, total: int | None) -> Callable[..., None]:
    """Show no progress: the default `Progress` and `ByteProgress`."""
    return _ignore


def _ignore(count: int = 1) -> None:
    pass
