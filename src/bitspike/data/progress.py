"""How long work tells that it goes on: who starts a stage gets a function to call as it advances."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int], Callable[[], None]]  # (stage, steps in all) -> advance by one step
ByteProgress = Callable[[str, int | None], Callable[[int], None]]  # (stage, bytes in all) -> advance by so many bytes


def silent(stage: str, total: int | None) -> Callable[..., None]:
    """Show nothing: the default `Progress` and `ByteProgress`."""
    return _ignore


def _ignore(count: int = 1) -> None:
    pass
