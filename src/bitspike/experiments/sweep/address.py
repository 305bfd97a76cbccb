"""The address of a PostgreSQL server: what is taken for one, and how it is shown without its password.

An address is taken only if it can be read in one way. SQLAlchemy takes what follows the first @ for the host, so that
a password with a sign that was not encoded would be half password and half host, and errors print hosts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, quote_plus, unquote

from bitspike._lazy import not_installed

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

HIDDEN = "***"
_DRIVERS = ("postgresql", "postgres", "postgresql+psycopg", "postgres+psycopg")
_USER = re.compile(r"(?:[^\s/?#\[\]@:%]|%[0-9A-Fa-f]{2})*")
_HOST = re.compile(r"(?:[\w.,-]*|\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\])(?::[0-9]{1,5})?")
_SETTINGS = """
    host hostaddr port user service passfile application_name fallback_application_name options client_encoding
    sslmode sslnegotiation sslcert sslkey sslrootcert sslcrl sslcrldir sslsni sslcompression sslcertmode requiressl
    ssl_min_protocol_version ssl_max_protocol_version requirepeer require_auth channel_binding gssencmode gsslib
    gssdelegation krbsrvname connect_timeout keepalives keepalives_idle keepalives_interval keepalives_count
    tcp_user_timeout target_session_attrs load_balance_hosts
"""  # settings of libpq that hold no secret: they may follow the ?
_NUMBERS = """
    connect_timeout keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
"""  # those of them that are whole numbers


def require_address(address: str) -> None:
    """Raise unless this is the address of a server that several processes may write to; nothing of it is printed."""
    driver, separator, rest = address.partition("://")
    scheme = address.partition(":")[0].partition("+")[0].lower()
    if scheme == "sqlite":
        raise ValueError(
            "--storage sqlite: SQLite is not made for several writers; leave --storage out for a journal file on one "
            "machine, or give postgresql://USER@HOST/DATABASE for several"
        )
    if scheme not in ("postgresql", "postgres") or not separator:
        named = f" {scheme}:" if re.fullmatch(r"[a-z][a-z0-9]{0,15}", scheme) and separator else ""
        raise ValueError(
            f"--storage{named} must be the address of a PostgreSQL server, postgresql://USER@HOST/DATABASE; leave it "
            "out for a journal file in the folder"
        )
    if driver.lower() not in _DRIVERS:
        raise ValueError("--storage: bitspike reaches PostgreSQL by psycopg only; begin the address with postgresql://")
    _require_parts(rest)


def _require_parts(rest: str) -> None:
    """Raise unless what follows :// can be read in one way only."""
    server, path, query = _parts(rest)
    login, at, host = server.rpartition("@")
    user, _, password = login.partition(":")
    one_way = (
        rest.count("@") == len(at)
        and not re.search(r"[\s#]", rest)
        and all(_USER.fullmatch(each) and unquote(each).isprintable() for each in (user, password))
        and _HOST.fullmatch(host)
        and (host or path or query)
    )
    if not one_way:
        raise ValueError(
            "--storage is not an address of the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE; a password with "
            "signs such as / @ : ? # or % must be percent-encoded, or be given in PGPASSWORD instead"
        )
    settings = parse_qsl(query, keep_blank_values=True)
    if any("pass" in key.lower() and key != "passfile" for key, _ in settings):  # password, sslpassword
        raise ValueError("--storage: give the password as USER:PASSWORD@HOST or in PGPASSWORD, and not after the ?")
    if not {key for key, _ in settings} <= set(_SETTINGS.split()):
        raise ValueError(
            "--storage: only settings of PostgreSQL's clients may follow the ?, such as sslmode=require; "
            "give user, password and database as postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    for key, value in settings:
        if key in _NUMBERS.split() and not re.fullmatch(r"(-?[0-9]{1,9})?", value):
            raise ValueError(
                f"--storage: {key} must be a whole number of at most nine digits, but is not; write {key}=10, or leave "
                "it out"
            )
    users = [unquote(user), *(value for key, value in settings if key == "user")]
    if any(":" in each for each in users) or any(
        "@" in each or "://" in each for each in (unquote(path), *(value for _, value in settings))
    ):
        raise ValueError(
            "--storage: the : between user and password must not be encoded, and no other address may follow the ?; "
            "give postgresql://USER:PASSWORD@HOST/DATABASE"
        )


def _parts(rest: str) -> tuple[str, str, str]:
    """Return the server with its login, the path and the query."""
    before, _, query = rest.partition("?")
    server, _, path = before.partition("/")
    return server, path, query


def read_address(address: str) -> URL:
    """Return SQLAlchemy's form of the address, for psycopg; raise as `require_address` does."""
    try:
        from sqlalchemy.engine import make_url
    except ModuleNotFoundError:
        raise not_installed("optuna", "a search needs Optuna", extra="search") from None
    require_address(address)
    return make_url(f"postgresql+psycopg://{address.partition('://')[2]}")


def shown_address(url: URL) -> str:
    """Return the address as it is printed: with *** for a password."""
    return _rendered(url.set(drivername="postgresql"), hide_password=True)


def address_without_password(url: URL) -> str:
    """Return the address as files keep it: without any password."""
    return _rendered(url._replace(drivername="postgresql", password=None))  # `set` takes None for "as it was"


def _rendered(url: URL, *, hide_password: bool = False) -> str:
    """Return the address as `require_address` takes it: SQLAlchemy leaves blanks as they are."""
    return re.sub(r"\s", lambda blank: quote(blank[0]), url.render_as_string(hide_password=hide_password))


def without_password(line: str, url: URL) -> str:
    """Return a line without the address's password, which no known error holds; a word that the address shows stays."""
    secret, shown = str(url.password or ""), address_without_password(url)
    spellings = {secret, quote(secret, safe=""), quote_plus(secret)} - {""}
    for each in sorted(spellings, key=len, reverse=True):
        word = re.compile(rf"(?<!\w){re.escape(each)}(?!\w)")
        line = line if word.search(shown) else word.sub(HIDDEN, line)
    return line


def command_line(arguments: Sequence[str], address: str | None) -> str:
    """Return the command line of these arguments, with the password of the address hidden.

    The password is not sought elsewhere: three asterisks for a word that is a file's name, too, would tell it.
    """
    hidden = list(arguments)
    for i, word in enumerate(arguments):  # the last one counts, but each may have a password
        option, given, value = word.partition("=")
        if option == "--storage" and given:
            hidden[i] = f"--storage={_hidden(value)}"
        elif word == "--storage" and i + 1 < len(arguments):
            hidden[i + 1] = _hidden(arguments[i + 1])
    if address is not None:
        hidden = [each.replace(address, _hidden(address)) for each in hidden]
    return shlex.join(["bitspike", *hidden])


def _hidden(address: str) -> str:
    """Return an address without its password; *** for one that cannot be read."""
    try:
        return shown_address(read_address(address))
    except ValueError:
        return HIDDEN
