"""`bitspike sweep show` and `bitspike sweep best` on the folder of a study."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from bitspike.cli import sweep_run
from bitspike.experiments.schema import experiment
from bitspike.experiments.sweep.chosen import chosen_outcome, chosen_toml
from bitspike.experiments.sweep.overview import overview
from bitspike.experiments.sweep.studies import open_study
from helpers.own_images import write_experiment
from helpers.studies import ACCURACY, SPIKES, study_folder


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Folders of a study with one objective, of one with two, and of one whose trials have not ended."""
    folder = tmp_path_factory.mktemp("studies")
    study_folder(folder / "one", trials=24)
    study_folder(folder / "two", trials=24, objectives=(ACCURACY, SPIKES))
    study_folder(folder / "none", trials=0)
    return folder


@pytest.fixture
def here(workplace, studies, monkeypatch):
    monkeypatch.chdir(studies)
    return studies


def test_show_says_how_the_study_stands(here, cli):
    status, out, _ = cli("sweep", "show", "one")
    assert status == 0
    assert "fashion/fixed (one): 24 trials complete (2 pruned); 1 failed; 1 not finished" in out
    held = json.loads(cli("sweep", "show", "one", "--json")[1])
    best = held["best"]
    assert f"best: trial {best['number']}, validation accuracy {100 * best['values'][0]:.2f} %, 3 epochs" in out
    row = next(line for line in out.splitlines() if line.startswith("train.lr"))
    assert f"0.0001 to 0.03, log {best['parameters']['train.lr']:.4g} " in " ".join(row.split())
    assert "importance: PED-ANOVA" in out
    assert "dashboard optuna-dashboard one/journal.log" in out
    assert "next      bitspike sweep best one > my.toml" in out


def test_json_is_for_programs(here, cli):
    held = json.loads(cli("sweep", "show", "one", "--json")[1])
    assert held["complete"] == 24
    assert set(held["importances"]) == set(held["space"]) - {"train.momentum"}
    assert held["dashboard"] == "optuna-dashboard one/journal.log"
    assert held["pictures"] == []
    page = (Path(__file__).parents[2] / "docs" / "reference" / "file-formats.md").read_text(encoding="utf-8")
    section = page.partition("### sweep show\n")[2].partition("\n#")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == held.keys()


def test_two_objectives_have_a_front(here, cli):
    _, out, _ = cli("sweep", "show", "two")
    held = json.loads(cli("sweep", "show", "two", "--json")[1])
    after = out[out.index("Pareto front") :]
    for each in held["front"]:
        accuracy, spikes = each["values"]
        assert f"{100 * accuracy:.2f}" in after
        assert f"{spikes:,.1f}" in after
    assert f"bitspike sweep best two --trial {held['best']['number']} > my.toml" in out
    status, _, err = cli("sweep", "best", "two")
    assert status == 1
    assert "two objectives" in err
    assert cli("sweep", "best", "two", "--trial", held["front"][-1]["number"])[0] == 0


def test_what_run_prints_of_two_objectives_leads_on(here, cli, capsys):
    sweep_run._show(overview(open_study(Path("two"))), Path("two"), 3.0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("most accurate: trial ")
    _, _, command = lines[-1].partition("; bitspike ")
    assert cli(*command.removesuffix(" > my.toml").split())[0] == 0


@pytest.mark.parametrize("command", [("sweep", "run"), ("preset", "show")])
def test_help_names_the_table(cli, command):
    assert "[search]" in cli(*command, "--help")[1]


def test_one_epoch_is_not_one_epochs(here):
    opened = open_study(Path("one"))
    found = overview(opened)
    text = chosen_toml(opened.facts.spec(), found, chosen_outcome(found, None), Path("one"), 1)
    assert "The search trained 1 epoch;" in text


def test_a_study_without_an_end(here, cli):
    status, out, _ = cli("sweep", "show", "none")
    assert status == 0
    assert "no trial is complete yet" in out
    assert cli("sweep", "best", "none")[0] == 1
    assert json.loads(cli("sweep", "show", "none", "--json", "--out", "pictures")[1])["best"] is None


def test_wrong_place_for_pictures(here, cli, tmp_path):
    status, _, err = cli("sweep", "show", "one", "--out", "slices.jpg")
    assert status == 1
    assert "ends in .png" in err
    (tmp_path / "file").write_text("")
    status, _, err = cli("sweep", "show", "one", "--out", tmp_path / "file")
    assert status == 1
    assert "is a file, but a folder is needed" in err


def test_best_is_an_experiment_file(here, cli):
    status, out, _ = cli("sweep", "best", "one")
    assert status == 0
    best = json.loads(cli("sweep", "show", "one", "--json")[1])["best"]
    made = experiment(tomllib.loads(out), "my.toml")
    assert made.train.lr == best["parameters"]["train.lr"]
    assert out.startswith(f"# Trial {best['number']} of the search fashion/fixed (24 trials complete)")
    other = experiment(json.loads(cli("sweep", "best", "one", "--trial", "2", "--json")[1]), "json")
    assert other.name == "fashion/fixed-trial-2"
    longer = experiment(tomllib.loads(cli("sweep", "best", "one", "--epochs", "30", "--scale")[1]), "my.toml")
    assert (longer.train.epochs, longer.train.half_period) == (30, 46880)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "nowhere"], "nowhere"),
        (["best", "one", "--trial", "99"], "--trial 99: the study has 26 trials"),
        (["best", "one", "--scale"], "say how many with --epochs N"),
    ],
)
def test_bad_input_is_one_line(here, cli, arguments, says):
    status, out, err = cli("sweep", *arguments)
    assert status == 1
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


def test_a_preset_with_its_space_can_be_edited(here, cli, tmp_path):
    from bitspike.experiments.sweep.space import space_of

    for name in ("fashion/annealed", "shd/best"):
        _, out, _ = cli("preset", "show", name, "--search")
        (tmp_path / "mine.toml").write_text(out)
        assert space_of(str(tmp_path / "mine.toml")).canonical() == space_of(name).canonical()
    assert (
        "net.beta = { low = 0.05, high = 0.995 }  # the paper's cells: 0.1"
        in cli("preset", "show", "mnist/fixed", "--search")[1]
    )
    assert (
        json.loads(cli("preset", "show", "mnist/fixed", "--search", "--json")[1])["search"]["net.theta"]["log"] is True
    )
    assert cli("preset", "show", "base/images", "--search")[0] == 1


def test_pictures_and_a_training_of_what_was_found(workplace, cli):
    toml = write_experiment(workplace)
    search = "net.beta = { low = 0.5, high = 0.9 }\ntrain.lr = { low = 1e-4, high = 3e-2 }"
    toml.write_text(f"{toml.read_text()}\n[search]\n{search}\n")
    study_folder(workplace / "study", source=str(toml), trials=23)
    _, out, _ = cli("sweep", "show", "study", "--out", "pictures")
    drawn = sorted(file.name for file in (workplace / "pictures").iterdir())
    assert drawn == ["history.png", "importances.png", "parallel.png", "slices.png"]
    assert all(f"picture   pictures/{name}" in out for name in drawn)
    held = json.loads(cli("sweep", "show", "study", "--json", "--out", "one.png")[1])
    assert held["pictures"] == ["one.png"]
    assert (workplace / "one.png").is_file()
    (workplace / "my.toml").write_text(cli("sweep", "best", "study")[1])
    status, out, err = cli("train", "my.toml", "--out", "run", "--epochs", "1", "--json")
    assert status == 0, err
    assert json.loads(out)["seed"] == held["best"]["number"]
