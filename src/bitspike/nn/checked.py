"""Modules that check their settings on assignment, so that a wrong one is found at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch import nn

Check = Callable[[Any, Any], Any]  # from the module and the assigned value to the value that is kept


class Checked(nn.Module):
    """A module that passes each assigned value to the function of that name in `checks`; reading costs nothing."""

    checks: ClassVar[Mapping[str, Check]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        check = self.checks.get(name)
        super().__setattr__(name, value if check is None else check(self, value))


def setting(require: Callable[[str, Any], None]) -> Check:
    """Return a check that calls `require(class name, value)` and keeps the value as it is."""

    def check(module: nn.Module, value: object) -> object:
        require(type(module).__name__, value)
        return value

    return check
