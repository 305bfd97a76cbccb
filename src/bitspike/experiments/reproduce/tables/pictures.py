"""The content of a table's pictures: accuracy over epochs, loss with the threshold, and how neurons fire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bitspike.analysis.static_figures import Descent, Fired, Group, Line, Losses
from bitspike.experiments.reproduce.tables.activity import Activity
from bitspike.experiments.reproduce.tables.results import Key, Result
from bitspike.experiments.reproduce.tables.table import BASE, PROTOCOLS, PaperTable


def panels(table: PaperTable, results: Mapping[Key, Result], activity: Mapping[Key, Activity | None]) -> list[Group]:
    """Return a row of panels for each task under each protocol."""
    groups = []
    for protocol, task in ((protocol, task) for protocol in PROTOCOLS for task in table.tasks):
        cells = {name: each for (p, t, name), each in results.items() if (p, t) == (protocol, task)}
        if not cells:
            continue
        some = next(iter(cells.values()))
        lines = {name: _line(each) for name, each in cells.items()}
        base = cells.get(BASE)
        beside = [cells[name] for name in table.dead.get(task, ()) if name in cells and name != BASE]
        fired = {name: found for name in cells if (found := activity.get((protocol, task, name))) is not None}
        groups.append(
            Group(
                title=f"{some.trials[0].summary['data']}, {protocol}",
                accuracy_on="test" if protocol == "paper" else "validation",
                variants=[line for name, line in lines.items() if cells[name].is_variant],
                ablations=[line for name, line in lines.items() if name == BASE or not cells[name].is_variant],
                descent=_descent(base, beside) if base and any(trial.rows for trial in base.trials) else None,
                activity={name: Fired(found.layers, found.steps) for name, found in fired.items()},
            )
        )
    return groups


def _line(result: Result) -> Line:
    """Return the accuracy of a cell's trials over epochs."""
    paper = result.trials[0].summary["paper"]
    return Line(result.name, [t.accuracies() for t in result.trials if t.rows], paper["mean"] if paper else None)


def _descent(base: Result, beside: Sequence[Result]) -> Descent:
    """Return the training loss of the annealed trials over iterations, with the last layer's threshold.

    The losses of the cells `beside` it are drawn for comparison.
    """
    trials = [trial for trial in base.trials if trial.rows]
    last = max(trial.rows[-1]["step"] for trial in trials)
    first = trials[0]
    theta = first.spec.net.schedules(len(first.rows[0]["theta"]))[-1]
    steps = sorted({round(last ** (i / 200)) for i in range(201)})  # evenly spread on a logarithmic axis
    return Descent(
        *_losses(base),
        steps,
        [theta(step) for step in steps],
        [Losses(each.name, *_losses(each)) for each in beside],
    )


def _losses(result: Result) -> tuple[list[list[int]], list[list[float]]]:
    """Return the iterations at which each trial's epochs end, and the training losses of these epochs."""
    trials = [trial for trial in result.trials if trial.rows]
    steps = [[row["step"] for row in trial.rows] for trial in trials]
    return steps, [[row["train_loss"] for row in trial.rows] for trial in trials]
