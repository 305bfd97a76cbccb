"""Bad schedules and annealing: one line each that says where, what is required, what came, and what to do."""

import pytest

from bitspike import (
    BinaryLinear,
    Constant,
    Linear,
    Relax,
    ThresholdAnnealing,
)
from helpers.bad_input import INF, NAN, case, network, require_clear_line


def loaded(**changes):
    annealing = ThresholdAnnealing(network(), Constant(1.0))
    saved = annealing.state_dict() | changes
    annealing.load_state_dict({name: value for name, value in saved.items() if value is not None})


SCHEDULES = [
    case("constant 0", ValueError, lambda: Constant(0.0), "Constant: value | > 0 | is 0.0 | fires at rest"),
    case("constant -1", ValueError, lambda: Constant(-1.0), "Constant: value | > 0 | is -1.0 | fires at rest"),
    case("constant nan", ValueError, lambda: Constant(NAN), "Constant: value | finite | is nan"),
    case("start 0", ValueError, lambda: Relax(0.0, 1.0, 0.1), "Relax: start | > 0 | is 0.0 | fires at rest"),
    case("stop inf", ValueError, lambda: Relax(1.0, INF, 0.1), "Relax: stop | finite | is inf"),
    case("stop = start", ValueError, lambda: Relax(2.0, 2.0, 0.1), "Relax: stop | > start | stop=2.0 | Constant(2"),
    case("stop < start", ValueError, lambda: Relax(3.0, 2.0, 0.1), "Relax: stop | start=3.0 | stop=2.0 | Constant"),
    case("linear stop < start", ValueError, lambda: Linear(3.0, 2.0, 9), "Linear: stop | > start | Constant"),
    case("rate 0", ValueError, lambda: Relax(1.0, 2.0, 0.0), "Relax: rate | (0, 1] | is 0.0 | from_tau"),
    case("rate 1.5", ValueError, lambda: Relax(1.0, 2.0, 1.5), "Relax: rate | (0, 1] | is 1.5 | from_tau"),
    case("rate -0.1", ValueError, lambda: Relax(1.0, 2.0, -0.1), "Relax: rate | (0, 1] | is -0.1 | from_tau"),
    case("rate nan", ValueError, lambda: Relax(1.0, 2.0, NAN), "Relax: rate | (0, 1] | is nan | from_tau"),
    case("tau 0", ValueError, lambda: Relax.from_tau(1.0, 2.0, 0.0), "Relax.from_tau: tau | > 0 | is 0.0"),
    case("tau inf", ValueError, lambda: Relax.from_tau(1.0, 2.0, INF), "Relax.from_tau: tau | finite | is inf"),
    case("linear 0 steps", ValueError, lambda: Linear(1.0, 2.0, 0), "Linear: steps | >= 1 | is 0 | iterations"),
    case("step -1 constant", ValueError, lambda: Constant(1.0)(-1), "Constant: step | >= 0 | is -1 | from 0"),
    case("step -1 relax", ValueError, lambda: Relax(1.0, 2.0, 0.5)(-1), "Relax: step | >= 0 | is -1 | from 0"),
    case("step -1 linear", ValueError, lambda: Linear(1.0, 2.0, 5)(-1), "Linear: step | >= 0 | is -1 | from 0"),
    case("linear nan steps", ValueError, lambda: Linear(1.0, 2.0, NAN), "Linear: steps | nan"),
    case(
        "text for a number", TypeError, lambda: Relax("1", 2.0, 0.5),
        "Relax: start | '1'",
    ),
]  # fmt: skip


ANNEALING = [
    case(
        "unknown layer", KeyError, lambda: ThresholdAnnealing(network(), {"layers.0.lf": Constant(1.0)}),
        "ThresholdAnnealing: | 'layers.0.lf' | known: layers.0.lif, layers.1.lif | did you mean 'layers.0.lif'",
    ),
    case(
        "nothing like it", KeyError, lambda: ThresholdAnnealing(network(), {"output": Constant(1.0)}),
        "ThresholdAnnealing: | 'output' | known: layers.0.lif, layers.1.lif",
    ),
    case(
        "too few schedules", ValueError, lambda: ThresholdAnnealing(network(), [Constant(1.0)]),
        "ThresholdAnnealing: the list | 2 | layers.0.lif, layers.1.lif | has 1 | dict by name",
    ),
    case(
        "too many schedules", ValueError, lambda: ThresholdAnnealing(network(), [Constant(1.0)] * 3),
        "ThresholdAnnealing: the list | has 3",
    ),
    case(
        "a number", TypeError, lambda: ThresholdAnnealing(network(), 2.0),
        "ThresholdAnnealing: the schedule | Relax | is 2.0",
    ),
    case(
        "a number in a list", TypeError, lambda: ThresholdAnnealing(network(), [Constant(1.0), 2.0]),
        "ThresholdAnnealing: the schedule of 'layers.1.lif' | Constant | is 2.0",
    ),
    case(
        "a function", TypeError, lambda: ThresholdAnnealing(network(), lambda k: 1.0),
        "ThresholdAnnealing: | `final`",
    ),
    case(
        "a class", TypeError, lambda: ThresholdAnnealing(network(), Relax),
        "ThresholdAnnealing: | Relax",
    ),
    case(
        "no neurons", ValueError, lambda: ThresholdAnnealing(BinaryLinear(2, 2), Constant(1.0)),
        "ThresholdAnnealing: the network | no neuron layer | LIF",
    ),
    case(
        "state without step", ValueError, lambda: loaded(step=None),
        "ThresholdAnnealing: the state | step | state_dict",
    ),
    case("step -1", ValueError, lambda: loaded(step=-1), "ThresholdAnnealing: the state's step | >= 0 | is -1"),
    case("step 1.5", ValueError, lambda: loaded(step=1.5), "ThresholdAnnealing: the state's step | whole | is 1.5"),
    case(
        "other schedules", ValueError, lambda: loaded(schedules={"layers.0.lif": [9.0, 9.0, 9.0, 9.0]}),
        "ThresholdAnnealing: the state | [9.0, | [1.0, | create it with the saved ones",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), SCHEDULES + ANNEALING)
def test_bad_input_is_one_clear_line(call, error, says):
    require_clear_line(call, error, says)
