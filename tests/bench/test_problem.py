"""What a peer gets of an experiment; parts that no peer has are refused."""

import pytest

from bitspike.bench.problem import experiment_of, recipe_of
from bitspike.experiments.schema import with_values
from helpers.bench import tiny


def test_a_peer_gets_the_presets_settings():
    case = tiny("shd")
    recipe = recipe_of(case, with_values(experiment_of(case), ["net.beta=[0.5, 0.75]"]))
    assert recipe.betas == (0.5, 0.75)
    assert recipe.norm is False


@pytest.mark.parametrize(
    "setting",
    [
        "net.beta={low=0.5,high=0.9}",
        "net.delays=5",
        "net.dense_norm=true",
        "net.readout=membrane",
        "net.spike_dropout=[0.1]",
    ],
)
def test_parts_that_no_peer_has_are_refused(setting):
    case = tiny("shd")
    name = setting.partition("=")[0]
    with pytest.raises(ValueError, match=f"bench: peers do not have what shd/annealed asks for with {name}$"):
        recipe_of(case, with_values(experiment_of(case), [setting]))
