"""Small experiments for tests: as plain values, as strategies of hypothesis, and what is said of wrong ones."""

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from bitspike.experiments.schema import Experiment, experiment

MINIMAL = {
    "name": "mine",
    "data": {"name": "mnist"},
    "net": {"notation": "784-10", "beta": 0.9, "slope": 1.0, "theta": 2.0},
    "train": {"lr": 1e-3, "schedule": "constant"},
}


def values(**tables):
    """MINIMAL with fields of its tables in place of, or beside, its own."""
    return {**MINIMAL, **{name: {**MINIMAL[name], **fields} for name, fields in tables.items()}}


def refusal(call, *arguments) -> str:
    """What the error says; always one line."""
    with pytest.raises(ValueError, match=r"\S") as error:
        call(*arguments)
    assert not isinstance(error.value, ValidationError)
    assert "\n" not in str(error.value)
    assert "pydantic" not in str(error.value)
    return str(error.value)


def get(spec: Experiment, key: str):
    """The value of a dotted field."""
    found = spec
    for part in key.split("."):
        found = found[int(part)] if part.isdecimal() else getattr(found, part)
    return found


# ---- Any experiment

numbers = st.floats(1e-6, 1e6)
shares = st.floats(0, 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=20)
rises = st.builds(
    lambda start, more, way: {"start": start, "stop": start + more + 1, **way},
    numbers,
    numbers,
    st.one_of(
        st.builds(lambda rate: {"rate": rate}, st.floats(1e-6, 1)),
        st.builds(lambda tau: {"tau": tau}, st.floats(1, 1e6)),
        st.builds(lambda steps: {"steps": steps}, st.integers(1, 10**6)),
    ),
)
thetas = st.one_of(numbers, rises, st.lists(st.one_of(numbers, rises), min_size=1, max_size=3))
experiments = st.builds(
    lambda title, seed, beta, slope, theta, lr, epochs, clip, binary: experiment(
        {
            **values(
                net={"beta": beta, "slope": slope, "theta": theta, "binary": binary},
                train={"lr": lr, "epochs": epochs, "grad_clip": clip},
            ),
            "title": title,
            "seed": seed,
        },
        "law",
    ),
    texts,
    st.integers(0, 2**32 - 1),
    st.one_of(shares, st.lists(shares, min_size=1, max_size=3)),
    numbers,
    thetas,
    numbers,
    st.integers(1, 10**9),
    st.one_of(st.none(), numbers),
    st.booleans(),
)
