"""The content of a table's pictures: accuracy over epochs, loss with the threshold, and how neurons fire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bitspike.analysis.static_figures import Descent, Fired, Group, Line, Losses
from bitspike.experiments.reproduce.tables.activity import Activity
from bitspike.experiments.reproduce.tables.results import Key, Result
from bitspike.experiments.reproduce.tables.table import BASE, FIXED, PROTOCOLS, PaperTable
from bitspike.schedules import Schedule


def panels(table: PaperTable, results: Mapping[Key, Result], activity: Mapping[Key, Activity | None]) -> list[Group]:
    """Return a row of panels for each task under each protocol."""
    groups = []
    for protocol, task in ((protocol, task) for protocol in PROTOCOLS for task in table.known_tasks):
        cells = {name: each for (p, t, name), each in results.items() if (p, t) == (protocol, task)}
        if not cells:
            continue
        some = next(iter(cells.values()))
        lines = {name: _line(each) for name, each in cells.items()}
        base = cells.get(BASE)
        beside = [cells[FIXED]] if FIXED in cells else []
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
    """Return the training loss of the annealed trials over iterations, with every layer's threshold.

    The losses of the cells `beside` it are drawn for comparison.
    """
    trials = [trial for trial in base.trials if trial.rows]
    last = max(trial.rows[-1]["step"] for trial in trials)
    rows, net = trials[0].rows, trials[0].spec.net
    schedules = net.schedules(len(rows[0]["theta"]))
    steps = sorted({round(last * i / 200) for i in range(201)} | {round(last ** (i / 200)) for i in range(201)})
    return Descent(
        *_losses(base),
        steps,
        [[theta(step) for step in steps] for theta in schedules],
        [Losses(each.name, *_losses(each)) for each in beside],
        logarithmic=any(settles_within(theta, rows[0]["step"], last) for theta in schedules),
    )


def settles_within(theta: Schedule, first: int, last: int) -> bool:
    """Return whether a threshold makes three quarters of its way to iteration `last` by iteration `first`."""
    return theta(first) - theta(0) > 0.75 * (theta(last) - theta(0))


def _losses(result: Result) -> tuple[list[list[int]], list[list[float]]]:
    """Return the iterations at which each trial's epochs end, and the training losses of these epochs."""
    trials = [trial for trial in result.trials if trial.rows]
    steps = [[row["step"] for row in trial.rows] for trial in trials]
    return steps, [[row["train_loss"] for row in trial.rows] for trial in trials]
