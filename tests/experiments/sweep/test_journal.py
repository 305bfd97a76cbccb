"""The journal of a study: a writer may die in the middle of a line."""

import json

import optuna
import pytest

from bitspike.experiments.sweep.journal import JournalFile, cut_half_line


@pytest.mark.parametrize(
    ("held", "left"),
    [
        (b"", b""),
        (b"{}\n", b"{}\n"),
        (b"{}\n{}\n{", b"{}\n{}\n"),
        (b"{", b""),
        (b"{}\n" + b"x" * 10_000, b"{}\n"),
        (b"y" * 5000 + b"\n" + b"x" * 4096, b"y" * 5000 + b"\n"),
    ],
)
def test_half_a_line_is_cut(tmp_path, held, left):
    path = tmp_path / "journal.log"
    path.write_bytes(held)
    cut_half_line(path)
    assert path.read_bytes() == left


def test_a_study_goes_on_after_half_a_line(tmp_path):
    path = tmp_path / "journal.log"
    study = optuna.create_study(storage=JournalFile(path).optuna, study_name="one")
    study.tell(study.ask(), 1.0)
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    reader = optuna.load_study(study_name="one", storage=JournalFile(path).optuna)
    assert len(reader.trials) == 1
    study.tell(study.ask(), 2.0)
    later = optuna.load_study(study_name="one", storage=JournalFile(path).optuna)
    assert [trial.value for trial in later.trials] == [1.0, 2.0]
    assert [trial.value for trial in reader.trials] == [1.0, 2.0]


def test_a_damaged_journal_is_one_line(tmp_path):
    path = tmp_path / "journal.log"
    path.write_text('nonsense\n{"op_code": 0}\n')
    with pytest.raises(ValueError, match=r"journal.log is damaged: .*; choose another --out") as error:
        JournalFile(path)
    assert "\n" not in str(error.value)


def test_a_damaged_last_line_names_the_file(tmp_path):
    """Optuna sees that it is no line only when another one follows."""
    path = tmp_path / "journal.log"
    optuna.create_study(study_name="one", storage=JournalFile(path).optuna)
    with path.open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(ValueError, match=r"journal.log is damaged: .*; choose another --out"):
        optuna.create_study(study_name="two", storage=JournalFile(path).optuna)


@pytest.mark.parametrize(
    "changes",
    [
        {"op_code": 99},
        {"user_attr": {}},
        {"op_code": 6, "state": 17, "values": None},
        {"op_code": 5, "param_name": "a", "param_value_internal": 0.1, "distribution": "{'"},
    ],
)
def test_a_line_that_optuna_stumbles_over_names_the_file(tmp_path, changes):
    """Its lines are read one by one, and what they say is looked at later."""
    path = tmp_path / "journal.log"
    study = optuna.create_study(storage=JournalFile(path).optuna, study_name="one")
    study.ask().set_user_attr("a", 1)
    *before, last = path.read_text().splitlines()
    path.write_text("\n".join([*before, json.dumps({**json.loads(last), **changes})]) + "\n")
    with pytest.raises(ValueError, match=r"journal.log is damaged: .+; choose another --out") as error:
        JournalFile(path)
    assert str(error.value).count("is damaged") == 1
