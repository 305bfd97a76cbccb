"""The command `bitspike sweep best`."""

from __future__ import annotations

from typing import Annotated

import typer

from bitspike.cli.console import echo_json, echo_lines
from bitspike.cli.options import AsJson
from bitspike.cli.sweep_options import Storage, Study, require_optuna


def best(
    study: Study,
    trial: Annotated[int | None, typer.Option(min=0, help="Another trial than the best one, by its number.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Train so many epochs instead of the search's.")] = None,
    scale: Annotated[
        bool,
        typer.Option(
            "--scale",
            help="With --epochs, scale the learning rate's period and the thresholds' rates, too: they take the same "
            "share of the training as in the search.",
        ),
    ] = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Print the best trial as a complete experiment file, ready to train: bitspike sweep best STUDY > my.toml."""
    require_optuna()
    from bitspike.experiments.schema import as_values
    from bitspike.experiments.sweep.chosen import chosen_experiment, chosen_outcome, chosen_toml
    from bitspike.experiments.sweep.overview import overview
    from bitspike.experiments.sweep.studies import open_study

    if scale and epochs is None:
        raise ValueError("--scale scales to another number of epochs; say how many with --epochs N")
    opened = open_study(study, storage)
    found = overview(opened)
    outcome = chosen_outcome(found, trial)
    spec = opened.facts.spec()
    made = chosen_experiment(spec, found, outcome, epochs=epochs, scale=scale)
    if as_json:
        echo_json(as_values(made))
        return
    echo_lines(chosen_toml(made, found, outcome, study, spec.train.epochs).rstrip())
