"""Addresses of servers: what is refused before anything connects, and that no part of a password is ever shown."""

import shlex
import traceback
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.experiments.sweep.address import (
    address_without_password,
    command_line,
    read_address,
    require_address,
    shown_address,
    without_password,
)
from helpers import sweeps
from helpers.studies import study_folder

SECRET = "Sesame4711"
FORM = "--storage is not an address of the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE; a password with signs"
AFTER = "--storage: give the password as USER:PASSWORD@HOST or in PGPASSWORD, and not after the ?"
TWICE = "--storage: the : between user and password must not be encoded, and no other address may follow"


BAD = f"postgresql://anna:abc@{SECRET}@127.0.0.1:55418/db"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("sqlite:///study.db", "--storage sqlite: SQLite is not made for several writers; leave --storage out"),
        (f"mysql://me:{SECRET}@host/db", "--storage mysql: must be the address of a PostgreSQL server"),
        ("study.db", "--storage must be the address of a PostgreSQL server"),
        (SECRET, "--storage must be the address of a PostgreSQL server"),
        (f"postgresql:me:{SECRET}@host/db", "--storage must be the address of a PostgreSQL server"),
        (f" postgresql://me:{SECRET}@host/db", "--storage must be the address of a PostgreSQL server"),
        (f"postgresql+psycopg2://me:{SECRET}@host/db", "--storage: bitspike reaches PostgreSQL by psycopg only"),
        (f"postgresql+{SECRET}://me@host/db", "--storage: bitspike reaches PostgreSQL by psycopg only"),
        # signs of a password that were not encoded
        (f"postgresql://me:abc@{SECRET}@127.0.0.1:55418/db", FORM),
        (f"postgresql://me:{SECRET}@ho@st:x/db", FORM),
        (f"POSTGRESQL://me:abc@{SECRET}@[::1]/db", FORM),
        (f"postgresql+psycopg://me:abc@{SECRET}@host/db", FORM),
        (f"postgresql://me:abc/{SECRET}@host/db", FORM),
        (f"postgresql://me:a@b/{SECRET}@host/db", FORM),
        (f"postgresql://me:abc?{SECRET}@host/db", FORM),
        (f"postgresql://me:abc?x={SECRET}@host/db", FORM),
        (f"postgresql://me:abc#{SECRET}@host/db", FORM),
        (f"postgresql://me:abc:{SECRET}@host/db", FORM),
        (f"postgresql://me:%{SECRET}@host/db", FORM),
        (f"postgresql://me:abc%00{SECRET}@host/db", FORM),
        (f"postgresql://me:[{SECRET}]@host/db", FORM),
        (f"postgresql://me:abc {SECRET}@host/db", FORM),
        (f"postgresql://me:{SECRET}@host/db\n", FORM),
        (f"postgresql://me@example:{SECRET}@host/db", FORM),
        (f"postgresql://me:{SECRET}@::1/db", FORM),
        (f"postgresql://me:{SECRET}@host:port/db", FORM),
        (f"postgresql://me:{SECRET}", FORM),
        (f"postgresql://me%3A{SECRET}%40host/db", FORM),
        ("postgresql://", FORM),
        # settings of a kind that the client does not take
        (f"postgresql://me@host/db?connect_timeout={SECRET}", "--storage: connect_timeout must be a whole number of"),
        ("postgresql://me@host/db?connect_timeout=1.5", "--storage: connect_timeout must be a whole number of at most"),
        ("postgresql://me@host/db?keepalives=1&keepalives=abc", "--storage: keepalives must be a whole number of at"),
        ("postgresql://me@host/db?tcp_user_timeout=99999999999", "--storage: tcp_user_timeout must be a whole number"),
        # passwords that are not where they belong
        (f"postgresql://me@host/db?password={SECRET}", AFTER),
        (f"postgresql://me@host/db?PassWord={SECRET}", AFTER),
        (f"postgresql://me@host/db?sslmode=require&sslpassword={SECRET}", AFTER),
        (f"postgresql://me@host/db?pass={SECRET}", AFTER),
        (f"postgresql://me@host/db?pwd={SECRET}", "--storage: only settings of PostgreSQL's clients may follow the ?"),
        (f"postgresql://me@host/db?{SECRET}", "--storage: only settings of PostgreSQL's clients may follow the ?"),
        (f"postgresql://me%3A{SECRET}@host/db", TWICE),
        (f"postgresql://host/db?user=me:{SECRET}", TWICE),
        (f"postgresql://host/db?host=me:{SECRET}%40host", TWICE),
        (f"postgresql://host/postgresql:%2F%2Fme:{SECRET}%40host", TWICE),
    ],
)
def test_an_address_that_cannot_be_used(address, said):
    with pytest.raises(ValueError, match=r"\S") as error:
        require_address(address)
    assert str(error.value).startswith(said)
    told = "".join(traceback.format_exception(error.value))
    assert "4711" not in told
    assert "abc" not in told
    with pytest.raises(ValueError, match="--storage"):
        read_address(address)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"postgresql://me:{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"POSTGRESQL://me:{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgres://me:{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgresql+psycopg://me:{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://:{SECRET}@host/db", "postgresql://:***@host/db"),
        (f"postgresql://me:{SECRET}@[::1]:5433/db", "postgresql://me:***@[::1]:5433/db"),
        ("postgresql://me:it's%404711@host/db", "postgresql://me:***@host/db"),  # a shell has other quotes
        (f"postgresql://host:{SECRET}@host/host", "postgresql://host:***@host/host"),
        ("postgresql://db:db@db/db", "postgresql://db:***@db/db"),
        ("postgresql://me%40cloud:4711@host:5432/db?sslmode=require",
         "postgresql://me%40cloud:***@host:5432/db?sslmode=require"),
        ("postgresql:///db?host=/var/run&user=me", "postgresql:///db?host=%2Fvar%2Frun&user=me"),
        ("postgresql://me@host-1,host-2/db", "postgresql://me@host-1,host-2/db"),
        ("postgresql://me@/?service=mine", "postgresql://me@/?service=mine"),
    ],
)  # fmt: skip
def test_an_address_without_its_password(address, shown):
    url = read_address(address)
    assert url.drivername == "postgresql+psycopg"
    assert shown_address(url) == shown
    assert address_without_password(url) == shown.replace(":***", "")
    assert shlex.split(command_line(["--storage", address], address)) == ["bitspike", "--storage", shown]
    assert shlex.split(command_line([f"--storage={address}"], address)) == ["bitspike", f"--storage={shown}"]


def test_a_command_line_tells_no_password_by_hiding_the_same_word_elsewhere():
    address = "postgresql://me:search@host/db"
    assert command_line(["search.toml", "--storage", address], address) == (
        "bitspike search.toml --storage 'postgresql://me:***@host/db'"
    )
    assert command_line(["a b"], None) == "bitspike 'a b'"


def test_each_address_of_a_command_line_is_without_its_password():
    old, new = f"postgresql://me:{SECRET}@host/db", "postgresql://me:other@host/db"
    line = command_line(["--storage", old, f"--storage={BAD}", "--storage", new, "x"], new)
    assert shlex.split(line) == [
        "bitspike", "--storage", "postgresql://me:***@host/db", "--storage=***",
        "--storage", "postgresql://me:***@host/db", "x",
    ]  # fmt: skip


@given(
    *[
        st.text(
            st.characters(exclude_categories=("C", "Z"), include_characters=" ", exclude_characters=":@"), min_size=1
        )
    ]
    * 2
)
def test_an_address_as_files_keep_it_is_taken_again(user, database):
    url = read_address(f"postgresql://{quote(user, safe='')}:{SECRET}@host/{quote(database, safe='')}")
    kept = address_without_password(url)
    assert address_without_password(read_address(kept)) == kept
    assert SECRET not in kept or SECRET in user + database


def test_words_of_a_server_without_the_password():
    url = read_address("postgresql://me:host%2F1@host/db")
    assert without_password("host host/1 host%2F1 xhost/1", url) == "host *** *** xhost/1"
    url = read_address("postgresql://me:me@host/db")  # three asterisks for the user's name would tell it
    assert without_password('user "me"', url) == 'user "me"'


@given(st.text(st.characters(exclude_categories=("C", "Z")), min_size=1))
def test_an_encoded_password_arrives_whole_and_is_never_shown(password):
    url = read_address(f"postgresql://me:{quote(password, safe='')}@host:5432/db?application_name=a")
    assert (url.username, url.password, url.host, url.port, url.database) == ("me", password, "host", 5432, "db")
    assert shown_address(url) == "postgresql://me:***@host:5432/db?application_name=a"


@given(st.text("abc", max_size=3), st.sampled_from("@/#?: %[]"), st.text("abc@/#?: %[]", max_size=3))
def test_a_sign_that_is_not_encoded_is_refused(before, sign, after):
    with pytest.raises(ValueError, match="--storage is not an address of the form"):
        require_address(f"postgresql://me:{before}{sign}z{after}@host:5432/db")


@pytest.mark.parametrize("way", ["option", "environment"])
@pytest.mark.parametrize("command", ["run", "show", "best"])
def test_the_command_line_refuses_it_before_anything_is_made(way, command, workplace, cli, monkeypatch):
    sweeps.write_search(workplace)
    study_folder(workplace / "study", trials=1)
    held = (workplace / "study" / "study.json").read_text()
    (workplace / "study" / "study.json").write_text(held.replace('"storage": null', '"storage": "postgresql://h/db"'))
    argv = ["search.toml", "--trials", 1, "--device", "cpu", "--out", "out"] if command == "run" else ["study"]
    if way == "environment":
        monkeypatch.setenv("BITSPIKE_STORAGE", BAD)
    status, out, err = cli("sweep", command, *argv, *(["--storage", BAD] if way == "option" else []))
    assert (status, out) == (1, "")
    assert err.startswith(f"bitspike: {FORM}")
    assert "4711" not in err
    assert not (workplace / "out").exists()
