"""Where a study is kept, and what is refused; a password is never shown."""

import json
import os
import socket
import time
import traceback

import pytest

from bitspike.experiments.sweep.postgres import Postgres
from bitspike.experiments.sweep.storage import StorageUnavailableError
from bitspike.experiments.sweep.studies import open_study
from helpers import runs, sweeps
from helpers.postgres import ENCODED, PASSWORD

WRONG = "Sesame4711"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("storages")
    sweeps.write_search(folder)
    return folder


def refused(home, *more):
    """The one line that the command prints."""
    began = time.monotonic()
    ended = sweeps.start(home, "out", 2, *more).wait()
    assert time.monotonic() - began < 30
    assert ended.code == 1
    assert ended.out == ""
    assert ended.err.count("\n") == 1, ended.err
    return ended.err


def test_no_server_answers(home):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = refused(home, "--storage", f"postgresql://me:{WRONG}@127.0.0.1:{port}/db")
    assert line.startswith(f"bitspike: --storage postgresql://me:***@127.0.0.1:{port}/db: no server answers there (")
    assert WRONG not in line


def test_a_server_that_never_answers():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"postgresql://me:{WRONG}@127.0.0.1:{silent.getsockname()[1]}/db"
        began = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=r"the server does not answer in time; is it") as error:
            Postgres(address, 1)
        assert time.monotonic() - began < 12
    assert WRONG not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("asked", [True, False])
def test_a_server_that_is_frozen(server, asked, monkeypatch):
    """No answer is waited for without an end, and shortly only by a process that was asked to end."""
    monkeypatch.setattr("bitspike.experiments.sweep.postgres.PATIENT", 1.0)
    monkeypatch.setattr("bitspike.experiments.sweep.postgres.HURRIED", 0.5)
    storage = Postgres(server.address(), 1)
    storage.hurry_if(lambda: asked)
    with storage.optuna.engine.connect() as connection, server.frozen():
        began = time.monotonic()
        with pytest.raises(Exception, match="the server has not answered") as error:
            connection.exec_driver_sql("select 1")
        assert time.monotonic() - began < 4
    told = storage.trouble(error.value)
    assert str(told).endswith(
        f": the server has not answered for {0.5 if asked else 1} s; is it frozen, or overloaded?"
    )
    assert storage.optuna.get_all_studies() is not None  # by another connection


def test_a_wrong_password_is_never_shown(home, server):
    line = refused(home, "--storage", server.address(password=WRONG))
    assert line.endswith(': password authentication failed for user "sweeper"\n')
    assert WRONG not in line
    with pytest.raises(StorageUnavailableError) as error:
        Postgres(server.address(password=WRONG), 1)
    assert WRONG not in "".join(traceback.format_exception(error.value))
    assert "does not exist" in refused(home, "--storage", server.address(database="nothing"))


def test_a_missing_password_says_where_it_belongs(home, server):
    line = refused(home, "--storage", server.address().replace(f":{ENCODED}", ""))
    assert line.endswith(
        ": the server asks for a password, and none was given; give it in PGPASSWORD, in ~/.pgpass, or as "
        "USER:PASSWORD@HOST in BITSPIKE_STORAGE\n"
    )


def test_no_file_holds_the_password(home, server):
    ended = sweeps.sweep(home, "secret", 1, "--epochs", "1", "--storage", server.address())
    texts = [path.read_bytes() for path in (home / "secret").rglob("*") if path.is_file()]
    texts += [ended.out.encode(), ended.err.encode()]
    assert len(texts) > 5
    for secret in (PASSWORD, ENCODED):
        assert not any(secret.encode() in text for text in texts)
    assert b"sweeper:***@127.0.0.1" in (home / "secret" / "trials" / "00000" / "summary.json").read_bytes()
    with pytest.raises(StorageUnavailableError, match="password"):
        open_study(home / "secret")
    assert len(open_study(home / "secret", server.address()).study.trials) == 1


def with_password():
    os.environ["PGPASSWORD"] = PASSWORD
    sweeps.fork_workers()


def test_the_environment_may_hold_the_password(home, server, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    address = server.address().replace(f":{ENCODED}", "")
    storage = Postgres(address, 1)
    assert storage.shown == storage.address == address
    more = ("--epochs", "1", "--storage", address, "--study", "environment")
    sweeps.sweep(home, "environment", 1, *more, prepare=with_password)
    assert len(open_study(home / "environment").study.trials) == 1


@pytest.mark.parametrize("kind", ["journal", "postgresql"])
def test_optunas_dashboard_knows_what_the_values_are(home, kind, request):
    name = f"named-{kind}"
    address = request.getfixturevalue("server").address() if kind == "postgresql" else None
    more = (
        "--epochs",
        "1",
        "--second",
        "spikes",
        *(() if address is None else ("--storage", address, "--study", name)),
    )
    sweeps.sweep(home, name, 1, *more)
    assert "Warning" not in sweeps.sweep(home, name, 2, *more).err
    study = open_study(home / name, address).study
    assert study.metric_names == ["accuracy", "spikes"]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 2


def nameless():
    from bitspike.experiments.sweep import studies

    studies._name_metrics = lambda study, facts: None
    sweeps.fork_workers()


def test_a_study_of_an_earlier_version_goes_on(home, cli):
    """It has no names of its values, and checkpoints of trials that have ended."""
    sweeps.sweep(home, "earlier", 1, "--epochs", "1", prepare=nameless)
    (home / "earlier" / "trials" / "00000" / "last.ckpt").touch()
    assert cli("sweep", "show", home / "earlier")[0] == 0
    sweeps.sweep(home, "earlier", 2, "--epochs", "1")
    opened = open_study(home / "earlier")
    assert opened.study.metric_names is None
    assert len(opened.study.trials) == 2
    assert sweeps.checkpoints(home / "earlier") == []


def test_a_journal_on_a_full_disk_is_named(home):
    more = ("--epochs", "1", "--sampler", "random", "--json")
    ended = sweeps.start(home, "full", 60, *more, prepare=little_space).wait()
    assert ended.code == 1
    line = ended.err.splitlines()[-1]
    assert line.startswith(f"bitspike: {home / 'full' / 'journal.log'} could not be written: file too large; free")


def little_space():
    """Leave space for some trials: each adds 2 kB to the journal, and no other file has more than 17."""
    runs.small_files(24_000)
    sweeps.fork_workers()


# ---- Another study


@pytest.fixture(scope="module")
def study(home):
    sweeps.sweep(home, "mine", 1, "--epochs", "1")
    return home / "mine"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--seed", "3"), "seed was 0, is 3"),
        (("--epochs", "2"), "train.epochs was 1, is 2"),
        (("--set", "net.slope=3"), "net.slope was 5.0, is 3.0"),
        (("--second", "spikes"), "objectives was accuracy, is accuracy, spikes"),
        (("--sampler", "random"), "sampler was tpe, is random"),
        (("--pruner", "median"), "pruner was none, is median"),
        (("--set", "train.lr=0.1"), "search.train.lr was"),
    ],
)
def test_another_study_is_refused(home, study, more, said, cli):
    epochs = () if "--epochs" in more else ("--epochs", "1")
    status, _, told = cli(*sweeps.arguments(home, "mine", 1, *epochs, *more))
    assert status == 1
    assert told.count("\n") == 1
    assert f"{study} holds another study: " in told
    assert said in told
    assert "repeat the command that it was made with, or choose another --out" in told


def test_another_space_is_refused(home, study, cli):
    other = (home / "search.toml").read_text().replace("high = 0.99", "high = 0.9")
    (home / "other.toml").write_text('name = "search"\n' + other)
    argv = sweeps.arguments(home, "mine", 1, "--epochs", "1")
    argv[2] = str(home / "other.toml")
    status, _, told = cli(*argv)
    assert status == 1
    assert "holds another study: search.net.beta.high was 0.99, is 0.9;" in told


def test_a_study_on_a_server_is_refused_from_any_folder(home, server, cli):
    more = ("--epochs", "1", "--storage", server.address(), "--study", "taken")
    sweeps.sweep(home, "taken-1", 1, *more)
    status, _, told = cli(*sweeps.arguments(home, "taken-2", 1, *more, "--seed", "1"))
    assert status == 1
    assert "the study 'taken' in postgresql://sweeper:***@127.0.0.1" in told
    assert "holds another study: seed was 0, is 1" in told
    status, _, told = cli(*sweeps.arguments(home, "taken-1", 1, "--epochs", "1", "--study", "taken"))
    assert status == 1
    assert "holds a study that is kept on postgresql://sweeper@127.0.0.1" in told
    assert "give it as --storage, or choose another --out" in told


def test_a_name_that_no_server_keeps(home, cli):
    status, _, told = cli(*sweeps.arguments(home, "long", 1, "--study", "s" * 513))
    assert (status, told.count("\n")) == (1, 1)
    assert "the study's name must have at most 512 signs, but has 513; give --study" in told
    assert not (home / "long").exists()


def test_a_table_that_is_gone_ends_the_search_in_one_line(home, server):
    """It would not come back: nothing is waited for."""
    server.sql("create database dropped")
    address = server.address(database="dropped")
    driver = sweeps.start(home, "dropped", 200, "--epochs", "1", "--storage", address, "--study", "dropped")
    sweeps.wait_until(lambda: "COMPLETE" in sweeps.states(home / "dropped", address))
    server.sql("alter table trial_values rename to gone", database="dropped")
    ended = driver.wait()
    assert ended.code == 1
    assert "Traceback" not in ended.err
    last = ended.err.splitlines()[-1]
    assert last.startswith("bitspike: --storage postgresql://sweeper:***@127.0.0.1:")
    assert 'relation "trial_values" does not exist' in last


@pytest.mark.parametrize("damage", [{"storage": 5}, {"name": 7}, {"name": None}])
def test_a_damaged_note_of_the_study(home, study, cli, tmp_path, damage):
    held = json.loads((home / "mine" / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps({**held, **damage}))
    status, _, told = cli("sweep", "show", str(tmp_path))
    assert (status, "study.json is damaged, or of another version" in told) == (1, True)


def test_folders_that_hold_something_else(home, study, cli, tmp_path):
    (tmp_path / "mine.txt").touch()
    status, _, told = cli(*sweeps.arguments(home, str(tmp_path), 1))
    assert (status, "is not empty and holds no study; choose another --out" in told) == (1, True)
    with pytest.raises(ValueError, match="holds no study; `bitspike sweep run"):
        open_study(tmp_path)
    status, _, told = cli(*sweeps.arguments(home, "mine", 1, "--epochs", "1", "--storage", "postgresql://host/db"))
    assert (status, "kept in a journal file; leave --storage out, or" in told) == (1, True)
    status, _, told = cli(*sweeps.arguments(home, "mine", 1, "--epochs", "1", "--study", "yours"))
    assert (status, "holds the study 'search', not 'yours'" in told) == (1, True)


def test_other_samples_are_refused(home):
    """On a second machine, or after the file was changed."""
    sweeps.sweep(home, "samples", 1, "--epochs", "1")
    held = (home / "own.npz").read_bytes()
    try:
        runs.write_experiment(home, samples=63)
        ended = sweeps.start(home, "samples", 2, "--epochs", "1").wait()
    finally:
        (home / "own.npz").write_bytes(held)
    assert ended.code == 1
    assert "the samples here are not those of the study's first trial" in ended.err
    assert sweeps.states(home / "samples").count("COMPLETE") == 1
