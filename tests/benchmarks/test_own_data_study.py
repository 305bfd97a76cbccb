"""The sets of benchmarks/own_data_study.py: made alike each time, and as they say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    """The script."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import own_data_study

    return own_data_study


def test_a_set_is_made_alike_each_time_with_all_classes_and_persons(study):
    for made in study.SETS.values():
        arrays, again = (study.made_arrays(replace(made, samples=150)) for _ in range(2))
        for key, values in arrays.items():
            assert np.array_equal(values, again[key])
        assert set(arrays["labels"].tolist()) == set(range(made.classes))
        assert len(set(arrays["groups"].tolist())) == study.PERSONS
        assert arrays["t"].min() >= 0
        assert arrays["t"].max() < 1000 * made.seconds
        assert (arrays["x"].max() + 1) * (arrays["y"].max() + 1 if made.camera else 1) == made.channels


def test_the_sets_differ_in_size_length_and_balance(study):
    sets = study.SETS.values()
    assert min(made.channels for made in sets) == 6
    assert max(made.channels for made in sets) >= 128
    assert max(made.seconds for made in sets) >= 100 * min(made.seconds for made in sets)
    assert any(made.shares for made in sets)


def test_an_experiment_file_has_three_lines(study, tmp_path):
    path = study.write_files(tmp_path, "rate-16")
    assert path.read_text() == '[data]\nfile = "rate-16.npz"\ntime_unit = "ms"\n'
