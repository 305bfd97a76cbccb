"""The command `bitspike sweep show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitspike.cli.console import echo, echo_json, say
from bitspike.cli.options import AsJson
from bitspike.cli.sweep_options import Storage, Study, best_command, require_optuna
from bitspike.terminal import draw, screen, table
from bitspike.text import number_of

if TYPE_CHECKING:
    from bitspike.experiments.sweep.overview import Overview

MOST_SHOWN = 20  # trials of a front in the terminal


def show(
    study: Study,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|FILE.png",
            help="Draw history, slices, parallel coordinates, importances and a Pareto front into this folder; into a "
            "file, the slices.",
        ),
    ] = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Show what a search has found: its trials, the best of them, how much its parameters matter, and pictures."""
    require_optuna()
    from bitspike.experiments.sweep.dashboard import dashboard_command
    from bitspike.experiments.sweep.overview import overview
    from bitspike.experiments.sweep.studies import open_study

    if out is not None:
        _require_place(out)  # before the study is read
    opened = open_study(study, storage)
    found = overview(opened)
    drawn = [] if out is None else _draw(found, out)
    dashboard = dashboard_command(study)
    if as_json:
        echo_json({**found.as_json(), "pictures": list(map(str, drawn)), "dashboard": dashboard})
        return
    _show(found, study, opened.folder)
    for picture in drawn:
        echo(f"picture   {picture}")
    echo(f"dashboard {dashboard}")
    if found.best is not None:
        echo(f"next      {best_command(study, found)}")


def _require_place(out: Path) -> None:
    """Raise unless pictures can be drawn there: matplotlib is installed, and a file's name is a picture's."""
    from bitspike.analysis.picture_files import require_picture
    from bitspike.analysis.traces import require_matplotlib
    from bitspike.files import require_folder

    if out.suffix and not out.is_dir():
        require_picture(out)
        return
    require_matplotlib()
    require_folder(out, "choose another --out")


def _draw(found: Overview, out: Path) -> list[Path]:
    """Draw the pictures; return the files."""
    from bitspike.analysis.search_figures import draw_search, draw_slices

    if not found.trials.numbers:
        say("nothing is drawn: no trial has ended")
        return []
    if out.suffix and not out.is_dir():
        return [draw_slices(found.trials, out)]
    return draw_search(found.trials, out)


def _show(found: Overview, study: Path, folder: Path) -> None:
    """Print how the study stands, its best trial, and its parameters."""
    from bitspike.experiments.sweep.chosen import values_in_words
    from bitspike.experiments.sweep.overview import METHOD
    from bitspike.experiments.sweep.spread import narrow_ranges

    unfinished = f"; {found.standing.running} not finished" if found.standing.running else ""
    echo(f"{found.name} ({study}): {found.standing.words()}{unfinished}")
    if found.best is None:
        echo("no trial is complete yet")
        _parameters(found)
        return
    best = found.best
    epochs = f", {number_of(best.result['epochs'], 'epoch')}" if "epochs" in best.result else ""
    words = ", ".join(values_in_words(found, best))
    echo(f"{found.best_is}: trial {best.number}, {words}{epochs} ({folder / best.folder})")
    since = sum(not pruned for pruned in found.trials.pruned[found.trials.numbers.index(best.number) + 1 :])
    if since:
        echo(f"trials after it that were not pruned, and none of them better: {since}")
    _parameters(found)
    echo(
        f"importance: {METHOD}, of being among the best tenth" if found.trials.importances else found.why_no_importances
    )
    for line in narrow_ranges(found.trials):
        echo(line)
    if found.front:
        _front(found)


def _parameters(found: Overview) -> None:
    """Print a table of the parameters: range, the best trial's value, the best ten's, and the importance."""
    from bitspike.experiments.sweep.parameter import value_in_words
    from bitspike.experiments.sweep.spread import BEST, spread

    made = table(words=["parameter", "range"], numbers=["best", f"best {BEST}", "importance"])
    made.columns[0].no_wrap = True
    drawn: Any = found.best.parameters if found.best is not None else {}
    ranges = found.space.words()
    for axis in found.trials.axes:
        value = value_in_words(drawn[axis.name]) if axis.name in drawn else "-"
        share = found.trials.importances.get(axis.name)
        made.add_row(
            axis.name,
            ranges[axis.name],
            value,
            spread(found.trials, axis),
            "-" if share is None else f"{100 * share:.1f} %",
        )
    draw(made, screen())


def _front(found: Overview) -> None:
    """Print the trials that no other one beats in both objectives."""
    from bitspike.experiments.sweep.overview import SHOWN

    shown = [SHOWN[objective["name"]] for objective in found.objectives]
    made = table("Pareto front", words=["trial"], numbers=[each.label for each in shown])
    for outcome in found.front[:MOST_SHOWN]:
        pairs = zip(shown, outcome.values or (), strict=False)
        made.add_row(str(outcome.number), *(each.number(value) for each, value in pairs))
    draw(made, screen())
    if len(found.front) > MOST_SHOWN:
        echo(f"and {len(found.front) - MOST_SHOWN} more: --json has all")
