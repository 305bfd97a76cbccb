"""Bad input of the scan: one line each that says where, what is required, what came, and what to do."""

import pytest
import torch

from bitspike import (
    Adaptation,
    BinaryLinear,
    LIFState,
    binarize,
    lif,
)
from helpers.bad_input import INF, NAN, case, require_clear_line

CURRENT = torch.ones(4, 2, 3)  # T, B, N


def run(current=CURRENT, **kwargs):
    return lif(current, **{"beta": 0.5, "theta": 1.0, "slope": 1.0} | kwargs)


def spoilt(value, *where):
    current = CURRENT.clone()
    current[where] = value
    return current


def state(membrane=(2, 3), spikes=(2, 3), level=None):
    return LIFState(torch.zeros(membrane), torch.zeros(spikes), None if level is None else torch.zeros(level))


SCAN = [
    case("current a list", TypeError, lambda: run([[1.0]]), "lif: current | torch.Tensor | a list"),
    case("integer current", TypeError, lambda: run(CURRENT.long()), "lif: current | int64 | current.float()"),
    case("current of one dimension", ValueError, lambda: run(torch.ones(3)), "lif: current | [3] | steps=T"),
    case("no time steps", ValueError, lambda: run(CURRENT[:0]), "lif: current | at least one | [0, 2, 3]"),
    case("0 steps", ValueError, lambda: run(steps=0), "lif: steps | >= 1 | is 0 | leave it out"),
    case("2.5 steps", ValueError, lambda: run(steps=2.5), "lif: steps | whole | is 2.5 | leave it out"),
    case("True steps", ValueError, lambda: run(steps=True), "lif: steps | whole | is True | leave it out"),
    case(
        "nan current", ValueError, lambda: run(spoilt(NAN, 2, 1, 0)),
        "lif: current | finite | 1 of 24 | first: nan at t=2, index [1, 0] | upstream",
    ),
    case(
        "inf current", ValueError, lambda: run(spoilt(INF, 3, 0, 2)),
        "lif: current | finite | first: inf at t=3, index [0, 2] | upstream",
    ),
    case("-inf current", ValueError, lambda: run(spoilt(-INF, 0, 0, 0)), "lif: current | first: -inf at t=0"),
    case("nan current, torch", ValueError, lambda: run(spoilt(NAN, 0), backend="torch"), "lif: current | 6 of 24"),
    case("nan current, plain", ValueError, lambda: run(spoilt(NAN, 0), backend="reference"), "lif: current | 6 of 24"),
    case("inf, no decay", ValueError, lambda: run(spoilt(INF, 0), beta=0.0), "lif: current | 6 of 24"),
    case(
        "nan static current", ValueError, lambda: run(spoilt(NAN, 3, 1, 2)[3], steps=5),
        "lif: current | first: nan at index [1, 2] | upstream",
    ),
    case(
        "overflow", ValueError, lambda: run(CURRENT * 3e38, beta=1.0, theta=1.0),
        "lif: the membrane | although the current is | overflowed | lower | state=None",
    ),
    case(
        "nan state", ValueError, lambda: run(state=LIFState(torch.full((2, 3), NAN), torch.zeros(2, 3))),
        "lif: the membrane | state | state=None",
    ),
    case(
        "nan recurrent weight", ValueError, lambda: run(recurrent=torch.full((3, 3), NAN)),
        "lif: | recurrent",
    ),
    case("theta 0", ValueError, lambda: run(theta=0.0), "lif: theta must | > 0 | is 0; | fires at rest"),
    case("theta -1", ValueError, lambda: run(theta=-1.0), "lif: theta must | > 0 | is -1; | fires at rest"),
    case("theta nan", ValueError, lambda: run(theta=NAN), "lif: theta must | finite | is nan"),
    case("theta inf", ValueError, lambda: run(theta=INF), "lif: theta must | finite | is inf"),
    case("one bad theta", ValueError, lambda: run(theta=torch.tensor([1.0, -2.0, 1.0])), "lif: theta | is -2;"),
    case("theta_grad 0", ValueError, lambda: run(theta_grad=0.0), "lif: theta_grad | > 0 | is 0;"),
    case("theta a string", TypeError, lambda: run(theta="1"), "lif: theta | number or a tensor | a str"),
    case("theta a bool", TypeError, lambda: run(theta=True), "lif: theta | number or a tensor | a bool"),
    case(
        "theta to learn", ValueError, lambda: run(theta=torch.tensor(1.0, requires_grad=True)),
        "lif: theta | not require grad | theta.detach() | learn beta",
    ),
    case(
        "theta_grad to learn", ValueError, lambda: run(theta_grad=torch.tensor(1.0, requires_grad=True)),
        "lif: theta_grad | not require grad | detach()",
    ),
    case(
        "theta of another shape", ValueError, lambda: run(theta=torch.ones(4)),
        "lif: theta | [4] | [2, 3] | one value per neuron",
    ),
    case("theta with time", ValueError, lambda: run(theta=torch.ones(4, 2, 3)), "lif: theta | [4, 2, 3] | number"),
    case("theta_grad of another shape", ValueError, lambda: run(theta_grad=torch.ones(4)), "lif: theta_grad | [4]"),
    case("beta -0.1", ValueError, lambda: run(beta=-0.1), "lif: beta | [0, 1] | is -0.1 | kept per step"),
    case("beta 1.5", ValueError, lambda: run(beta=1.5), "lif: beta | [0, 1] | is 1.5 | kept per step"),
    case("beta nan", ValueError, lambda: run(beta=NAN), "lif: beta | [0, 1] | is nan | kept per step"),
    case("one bad beta", ValueError, lambda: run(beta=torch.tensor([0.5, 1.0, 2.0])), "lif: beta | is 2;"),
    case("beta of another shape", ValueError, lambda: run(beta=torch.ones(2)), "lif: beta | [2] | [2, 3]"),
    case("beta None", TypeError, lambda: run(beta=None), "lif: beta | number or a tensor | NoneType"),
    case("slope 0", ValueError, lambda: run(slope=0.0), "lif: slope | > 0 | is 0.0"),
    case("slope -1", ValueError, lambda: run(slope=-1.0), "lif: slope | > 0 | is -1.0"),
    case("slope nan", ValueError, lambda: run(slope=NAN), "lif: slope | finite | is nan"),
    case(
        "slope to be learnt", TypeError, lambda: run(slope=torch.nn.Parameter(torch.tensor(1.0))),
        "lif: slope | a number | requires grad | cannot be learnt",
    ),
    case(
        "slope a string", TypeError, lambda: run(slope="25"),
        "lif: slope | str",
    ),
    case(
        "state of another batch", ValueError, lambda: run(state=state((5, 3), (5, 3))),
        "lif: state.membrane | [5, 3] | [2, 3] | state=None",
    ),
    case(
        "state spikes of another shape", ValueError, lambda: run(state=state(spikes=(2,))),
        "lif: state.spikes | None",
    ),
    case(
        "state level of another shape", ValueError, lambda: run(state=state(level=(3,)), adaptation=Adaptation(0.5, 1)),
        "lif: state.adaptation | [3] | state=None",
    ),
    case(
        "state elsewhere", ValueError, lambda: run(state=LIFState(*[torch.zeros(2, 3, device="meta")] * 2)),
        "lif: state.membrane | meta | cpu | move",
    ),
    case(
        "state of nothing", TypeError, lambda: run(state=LIFState(None, None)),
        "lif: state.membrane | tensor | None | state=None",
    ),
    case(
        "recurrent elsewhere", ValueError, lambda: run(recurrent=torch.zeros(3, 3, device="meta")),
        "lif: recurrent | meta | cpu | move",
    ),
    case(
        "state a pair", TypeError, lambda: run(state=(torch.zeros(2, 3), torch.zeros(2, 3))),
        "lif: state | LIFState | tuple",
    ),
    case(
        "state a tensor", TypeError, lambda: run(torch.ones(4, 2, 3, 3), state=torch.zeros(3, 2, 3, 3)),
        "lif: state | LIFState | Tensor",
    ),
    case(
        "recurrent of another size", ValueError, lambda: run(recurrent=torch.ones(4, 4)),
        "lif: recurrent | [N, N] | 3 neurons | [4, 4]",
    ),
    case("no scale", ValueError, lambda: run(recurrent_scale=0), "lif: recurrent_scale | > 0 | is 0.0"),
    case("no share of the gradient", ValueError, lambda: run(recurrent_grad=0), "lif: recurrent_grad | > 0 | is 0.0"),
    case("recurrent not square", ValueError, lambda: run(recurrent=torch.ones(3, 2)), "lif: recurrent | [3, 2]"),
    case(
        "recurrent a list", TypeError, lambda: run(recurrent=[[1.0]]),
        "lif: recurrent | list",
    ),
    case(
        "recurrent without a batch", ValueError, lambda: run(torch.ones(4, 3), recurrent=torch.ones(3, 3)),
        "lif: recurrent | [T, B, N]",
    ),
    case("rho 1.5", ValueError, lambda: Adaptation(1.5, 1.0), "Adaptation: rho | [0, 1] | is 1.5 | decay"),
    case("rho nan", ValueError, lambda: Adaptation(NAN, 1.0), "Adaptation: rho | [0, 1] | is nan | decay"),
    case("strength -1", ValueError, lambda: Adaptation(0.5, -1.0), "Adaptation: strength | >= 0 | is -1.0"),
    case("strength inf", ValueError, lambda: Adaptation(0.5, INF), "Adaptation: strength | finite | is inf"),
    case(
        "adaptation a pair", TypeError, lambda: run(adaptation=(0.9, 1.8)),
        "lif: adaptation | Adaptation | tuple",
    ),
    case(
        "unknown backend", ValueError, lambda: run(backend="fast"),
        "lif: backend | auto, reference, torch, c | 'fast'",
    ),
    case(
        "float64 in c", ValueError, lambda: run(CURRENT.double(), backend="c"),
        "lif: backend 'c' | float64, not float32 | use 'auto'",
    ),
    case(
        "recurrent in c", ValueError, lambda: run(recurrent=torch.ones(3, 3), backend="c"),
        "lif: backend 'c' | recurrent | use 'auto'",
    ),
    case("integer weights", TypeError, lambda: binarize(torch.tensor([1])), "binarize: w | int64 | w.float()"),
    case("clip 0", ValueError, lambda: binarize(torch.ones(1), 0.0), "binarize: clip | > 0 | is 0.0 | None never"),
    case("clip nan", ValueError, lambda: binarize(torch.ones(1), NAN), "binarize: clip | > 0 | is nan | None never"),
    case("clip -1", ValueError, lambda: BinaryLinear(2, 2, clip=-1), "BinaryLinear: clip | is -1"),
    case(
        "weights a list", TypeError, lambda: binarize([1.0]),
        "binarize: w | list",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), SCAN)
def test_bad_input_is_one_clear_line(call, error, says):
    require_clear_line(call, error, says)


def test_every_backend_refuses_what_is_not_finite(backend):
    with pytest.raises(ValueError, match=r"lif: current must be finite, but 1 of 24 .* at t=1, index \[0, 1\]"):
        run(spoilt(NAN, 1, 0, 1), backend=backend)


def test_a_missing_kernel_says_why(monkeypatch):
    monkeypatch.setattr("bitspike.ops.native.library.library", lambda: None)
    with pytest.raises(ValueError, match=r"lif: backend 'c' cannot run.*missing or out of date.*use 'auto'"):
        run(backend="c")


def test_a_wrong_backend_in_the_environment_is_named_as_such(monkeypatch):
    monkeypatch.setenv("BITSPIKE_BACKEND", "fast")
    with pytest.raises(ValueError, match=r"BITSPIKE_BACKEND.*auto, reference, torch, c.*'fast'"):
        run()
