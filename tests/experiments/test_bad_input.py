"""Bad experiments: one line each that says where, what is required, what came, and what to do."""

import pytest

from bitspike.experiments.presets import preset, preset_or_file
from bitspike.experiments.schema import as_values, experiment, with_values
from helpers.bad_input import case, require_clear_line


def spec(*settings, **tables):
    if settings:
        return with_values(preset("coding/fixed"), settings)
    return experiment(as_values(preset("coding/fixed")) | tables, "mine.toml")


EXPERIMENTS = [
    case(
        "wrong table", ValueError, lambda: spec(network={"beta": 0.5}),
        "mine.toml: | no table is named [network] | [data], [net], [train] | did you mean [net]",
    ),
    case(
        "number in quotes", ValueError, lambda: spec(train={"lr": "1e-3"}),
        "mine.toml: train.lr: | a number | '1e-3' | without quotes: 1e-3",
    ),
    case(
        "one bad setting of several", ValueError, lambda: spec("train.epochs=3", "train.lr=-1", "net.beta=0.5"),
        "--set train.lr=-1: train.lr: | greater than 0 | is -1",
    ),
    case(
        "settings that do not go together", ValueError, lambda: spec("train.epochs=3", "train.schedule=cosine"),
        "--set train.schedule=cosine: train.half_period is missing",
    ),
    case(
        "data for an experiment", ValueError, lambda: preset_or_file("mine.npz"),
        "mine.npz | an experiment is a preset or a TOML file | [data] | file = 'mine.npz'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), EXPERIMENTS)
def test_bad_input_is_one_clear_line(call, error, says):
    require_clear_line(call, error, says)
