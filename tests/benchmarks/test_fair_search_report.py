"""benchmarks/fair_search_report.py: which settings count, and what is said of those that have not ended."""

from __future__ import annotations

import pytest

from helpers.fair_search import VARIANTS, Played

OPTIONS = ("--stage", "report", "--trials", "3", "--best", "2", "--seeds", "2")


@pytest.fixture
def begun(played: Played) -> Played:
    """A search of `fixed`, whose best two settings have given results."""
    played.search("fixed")
    return played


def give(played: Played, variant: str, *results: dict[int, tuple[float | None, float | None]]) -> None:
    """Make long trainings of a variant's best settings, with validation and test accuracies by seed."""
    for trial, found in zip(played.ranking(variant), results, strict=False):
        folder = played.out / "long" / f"{variant}-trial{trial}-110"
        played.results[folder.name] = found
        played.train(folder, 2)


def test_validation_samples_choose_the_setting_whose_test_counts(
    begun: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    give(begun, "fixed", {0: (0.80, 0.90), 1: (0.80, 0.91)}, {0: (0.85, 0.70), 1: (0.85, 0.71)})
    assert begun.main(*OPTIONS, "--only", "fixed") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| fixed theta | 3 of 3 | ")]
    assert lines[0].endswith(" | 2 of 2 | 80.00 | 0.00 | 90.50 | 0.71 |  |")
    assert lines[1].endswith(" | 2 of 2 | 85.00 | 0.00 | 70.50 | 0.71 | **chosen** |")
    assert begun.report()["fixed"]["chosen"] == 1


def test_a_diverged_training_counts_as_chance(begun: Played, capsys: pytest.CaptureFixture[str]) -> None:
    give(begun, "fixed", {0: (0.80, 0.90), 1: (None, None)}, {0: (0.46, 0.6), 1: (0.46, 0.6)})
    assert begun.main(*OPTIONS, "--only", "fixed") == 0
    found = begun.report()["fixed"]
    assert (found["chosen"], found["settings"][0]["diverged"]) == (1, [1])
    assert (found["settings"][0]["validation"], found["settings"][0]["test"]) == ([80.0, 10.0], [90.0, 10.0])
    assert " | 45.00 | 49.50 | 50.00 | 56.57 | 1 diverged, counted as chance |" in capsys.readouterr().out


def test_a_setting_is_not_chosen_before_all_its_seeds_have_ended(
    begun: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    give(begun, "fixed", {1: (0.9, 0.9)})
    assert begun.main(*OPTIONS, "--only", "fixed") == 75
    assert begun.report()["fixed"]["chosen"] == 0  # there is no other
    said = capsys.readouterr().out
    assert " | 1 of 2 | 90.00 | - | 90.00 | - | **chosen**, unfinished |" in said
    assert " | 0 of 2 | - | - | - | - | unfinished |" in said
    assert "not finished: fixed has 0 of 2 settings trained long" in said

    give(begun, "fixed", {1: (0.9, 0.9)}, {0: (0.8, 0.8), 1: (0.8, 0.8)})
    assert begun.main(*OPTIONS, "--only", "fixed") == 75
    assert begun.report()["fixed"]["chosen"] == 1
    assert "not finished: fixed has 1 of 2 settings trained long" in capsys.readouterr().out
    assert begun.main(*OPTIONS, "--only", "fixed", "--seeds", "1") == 75  # seed 1 alone is not the first one


def test_a_call_for_one_variant_keeps_the_others(begun: Played, capsys: pytest.CaptureFixture[str]) -> None:
    begun.search("theta1")
    give(begun, "theta1", *[{0: (0.8, 0.7), 1: (0.8, 0.7)}] * 2)
    give(begun, "fixed", {0: (0.8, 0.7)})
    assert begun.main(*OPTIONS, "--only", "theta1") == 0
    assert list(begun.report()) == ["theta1", "fixed"]
    assert "no study yet: annealed, moving" in capsys.readouterr().out
    assert begun.main(*OPTIONS, "--only", "moving") == 75
    assert list(begun.report()) == ["theta1", "fixed"]
    assert "not finished: moving has 0 of 3 trials\n" in capsys.readouterr().out


def test_without_any_study_there_is_no_table(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    assert played.main(*OPTIONS) == 75
    assert f"no study yet: {', '.join(VARIANTS)}\n" in capsys.readouterr().out
    assert not played.out.exists()
