"""A PostgreSQL server as a storage: its address without the password, its errors in one line, its lock."""

from __future__ import annotations

import hashlib
import re
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, quote_plus

import optuna

from bitspike._lazy import not_installed
from bitspike.experiments.sweep.storage import StorageUnavailableError, StudyStorage, require_address

ANSWER = 5  # seconds within which a server must answer
_HIDDEN = "***"


class Postgres(StudyStorage):
    """Studies on a PostgreSQL server; workers give signs of life every `heartbeat` seconds."""

    def __init__(self, address: str, heartbeat: int) -> None:
        require_address(address)
        self._url, self._secrets = _read_address(address)
        plain = self._url.set(drivername=self._url.drivername.removesuffix("+psycopg"))
        self.shown = plain.render_as_string(hide_password=True)
        self.address = plain._replace(password=None).render_as_string()  # `set` takes None for "as it was"
        self.heartbeat = heartbeat
        with self._clearly():
            self.optuna = self._storage = self._open(heartbeat)
        weakref.finalize(self._storage, self._storage.engine.dispose)  # closes connections before they are lost

    def _open(self, heartbeat: int) -> optuna.storages.RDBStorage:
        import sqlalchemy

        url = self._url.render_as_string(hide_password=False)
        given = {
            "connect_timeout": ANSWER,
            # a network or a server that is gone is noticed, here and there
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
            "options": "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 "
            "-c lock_timeout=60s -c statement_timeout=120s",
            "application_name": "bitspike sweep",
        }
        wishes = {key: value for key, value in given.items() if key not in self._url.query}
        engine = {"pool_pre_ping": True, "connect_args": wishes}
        alone = sqlalchemy.create_engine(url, **engine)
        try:
            # Two processes that make the tables at once would trip over each other.
            with _locked(alone, "tables"), warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                return optuna.storages.RDBStorage(
                    url, engine_kwargs=engine, heartbeat_interval=heartbeat, grace_period=3 * heartbeat
                )
        finally:
            alone.dispose()

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Keep all other processes out of `name`; the server ends the lock with the connection of its holder."""
        with _locked(self._storage.engine, name):
            yield

    def beat(self, trial_id: int) -> None:
        self._storage.record_heartbeat(trial_id)

    def stale(self, study_id: int) -> set[int]:
        return set(self._storage._get_stale_trial_ids(study_id))

    def trouble(self, error: BaseException) -> StorageUnavailableError | None:
        """Return the error in one line if it means that the server does not answer; else None.

        A connection that breaks shows in many errors, also of SQLAlchemy's own. Only those that blame the query itself
        would come again.
        """
        from sqlalchemy import exc

        found: BaseException | None = error
        while found is not None and not isinstance(found, exc.SQLAlchemyError):
            found = found.__cause__ or found.__context__
        blames_query = (exc.ProgrammingError, exc.IntegrityError, exc.DataError, exc.NotSupportedError)
        if found is None or isinstance(found, (*blames_query, exc.ArgumentError, exc.CompileError)):
            return None
        return StorageUnavailableError(f"--storage {self.shown}: {self._words(found)}")

    def _words(self, error: Any) -> str:
        """Return the server's words on an error in one line, without the password."""
        text = str(getattr(error, "orig", None) or error)
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        line = next((each for each in lines if "FATAL" in each), lines[0] if lines else type(error).__name__)
        line = re.sub(r"^.*FATAL: ", "", line).removeprefix("connection failed: ")
        for secret in self._secrets:
            line = line.replace(secret, _HIDDEN)
        if "timeout" in line:
            return f"the server does not answer within {ANSWER} s; is it running, and can it be reached from here?"
        if "refused" in line or "could not" in line or "failed to resolve" in line:
            return f"no server answers there ({line})"
        return line

    @contextmanager
    def _clearly(self) -> Iterator[None]:
        """Raise what goes wrong when the server is first asked in one line; no part of an address may show."""
        try:
            yield
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise not_installed("psycopg", "PostgreSQL needs psycopg", extra="search") from None
        except Exception as error:
            if (trouble := self.trouble(error)) is not None:
                raise trouble from None
            raise ValueError(f"--storage {self.shown}: {self._words(error)}") from None


@contextmanager
def _locked(engine: Any, name: str) -> Iterator[None]:
    """Hold the server's lock of this name until the transaction ends, or the connection."""
    import sqlalchemy

    key = int.from_bytes(hashlib.blake2b(f"bitspike sweep {name}".encode(), digest_size=8).digest(), signed=True)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("select pg_advisory_xact_lock(:key)"), {"key": key})
        yield


def _read_address(address: str) -> tuple[Any, tuple[str, ...]]:
    """Return SQLAlchemy's form of the address, and the spellings of its password."""
    try:
        from sqlalchemy.engine import make_url
    except ModuleNotFoundError:
        raise not_installed("optuna", "a search needs Optuna", extra="search") from None
    try:
        url = make_url(address)
        if not url.host and "host" not in url.query and not url.database:
            raise ValueError
    except Exception:  # its message may hold a part of the password
        raise ValueError(
            "--storage is not an address of the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE; a password with "
            "signs such as / or @ must be percent-encoded, or be given in PGPASSWORD instead"
        ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    secret = url.password or ""
    query_secret = url.query.get("password", "")
    if query_secret:
        raise ValueError("--storage: give the password as USER:PASSWORD@HOST or in PGPASSWORD, and not after the ?")
    spellings = {secret, quote(secret, safe=""), quote_plus(secret)} - {""}
    return url, tuple(sorted(spellings, key=len, reverse=True))


def without_password(text: str, address: str | None) -> str:
    """Return a text, such as a command line, with the password of an address hidden."""
    if address is None:
        return text
    try:
        url, secrets = _read_address(address)
    except ValueError:
        return text.replace(address, _HIDDEN)
    text = text.replace(address, url.set(drivername="postgresql").render_as_string(hide_password=True))
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text
