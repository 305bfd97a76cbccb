"""The plan of a table's training: its cells by task, row and protocol, with the changes of `--set` in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bitspike.experiments.comparison import differences
from bitspike.experiments.presets import preset
from bitspike.experiments.reproduce.tables.table import BASE, VARIANTS, PaperTable, Protocol
from bitspike.experiments.schema import Experiment, with_values
from bitspike.experiments.settings import parse_setting


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of a table under one protocol, or an ablation of it: the experiment, and how many trials it has."""

    protocol: Protocol
    task: str
    name: str
    spec: Experiment
    trials: int

    def folder(self, out: Path) -> Path:
        """Return the folder of the cell's trials."""
        return out / self.protocol / self.task / self.name


def plan(
    table: PaperTable,
    *,
    protocols: Sequence[Protocol] = ("paper",),
    tasks: Sequence[str] | None = None,
    variants: Sequence[str] = VARIANTS,
    ablations: bool | Sequence[str] = False,
    trials: int = 5,
    ablation_trials: int = 3,
    settings: Sequence[str] = (),
) -> list[Cell]:
    """Return the cells to train, in the table's order; `settings` (key=value) hold for all of them.

    `ablations` are names of changes to the annealed cells, or True for all that the table has.
    """
    if trials < 1 or ablation_trials < 1:
        raise ValueError(f"reproduce {table.name}: trials must be 1 or more, but are {trials} and {ablation_trials}")
    for setting in settings:
        if parse_setting(setting)[0] == "train.protocol":
            raise ValueError(
                f"reproduce {table.name}: --set {setting}: protocols have folders of their own; use --protocol"
            )
    cells = []
    for protocol in dict.fromkeys(protocols):
        for task in dict.fromkeys(table.tasks if tasks is None else tasks):
            common = [*settings, f"train.protocol={protocol}"]
            for name in dict.fromkeys(variants):
                cells.append(Cell(protocol, task, name, with_values(preset(f"{task}/{name}"), common), trials))
            if ablations:
                base = with_values(preset(f"{task}/{BASE}"), common)
                names = table.ablations if ablations is True else dict.fromkeys(ablations)
                changed = [(name, with_values(base, table.ablations[name].settings(base))) for name in names]
                cells += [
                    Cell(protocol, task, name, spec, ablation_trials)
                    for name, spec in changed
                    if differences(base, spec)  # --set may have made this change already
                ]
    return cells
