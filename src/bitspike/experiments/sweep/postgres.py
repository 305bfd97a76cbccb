"""A PostgreSQL server as a storage: its errors in one line, its lock."""

from __future__ import annotations

import hashlib
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import optuna

from bitspike._lazy import not_installed
from bitspike.experiments.sweep.address import address_without_password, read_address, shown_address, without_password
from bitspike.experiments.sweep.storage import StorageUnavailableError, StudyStorage

ANSWER = 5  # seconds within which a server must take a connection
PATIENT = 130  # seconds that a process waits for an answer: the server itself ends a statement after 120
HURRIED = 3  # the same, once the process was asked to end


@dataclass(slots=True)
class _Patience:
    """How long an answer is waited for: less once `ending()` is true."""

    ending: Callable[[], bool] = lambda: False

    def seconds(self) -> float:
        return HURRIED if self.ending() else PATIENT


class Postgres(StudyStorage):
    """Studies on a PostgreSQL server; workers give signs of life every `heartbeat` seconds."""

    def __init__(self, address: str, heartbeat: int) -> None:
        self._url = read_address(address)
        self.shown, self.address = shown_address(self._url), address_without_password(self._url)
        self.heartbeat = heartbeat
        self._patience = _Patience()
        with self._clearly():
            self.optuna = self._storage = self._open(heartbeat)
        weakref.finalize(self._storage, self._storage.engine.dispose)  # closes connections before they are lost

    def _open(self, heartbeat: int) -> optuna.storages.RDBStorage:
        import sqlalchemy

        from bitspike.experiments.sweep.connection import LimitedConnection

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
        patience = self._patience  # not this storage, which nobody else may hold: it closes its connections in the end
        arguments, options = self._url.get_dialect()().create_connect_args(self._url)

        def connect() -> LimitedConnection:
            hurried = {"connect_timeout": HURRIED} if patience.ending() else {}
            connection = LimitedConnection.connect(*arguments, **{**options, **wishes, **hurried})
            connection.limit = patience.seconds
            return connection

        engine = {"pool_pre_ping": True, "creator": connect}
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

    def hurry_if(self, ending: Callable[[], bool]) -> None:
        self._patience.ending = ending

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
        """Return the error in one line if it means that the server does not answer; None if it is no server's error.

        A connection that breaks shows in many errors, also of SQLAlchemy's own. Only those that blame the query itself
        would come again, as when a table was dropped: they are raised in one line.
        """
        from sqlalchemy import exc

        found: BaseException | None = error
        while found is not None and not isinstance(found, exc.SQLAlchemyError):
            found = found.__cause__ or found.__context__
        blames_query = (exc.ProgrammingError, exc.IntegrityError, exc.DataError, exc.NotSupportedError)
        if found is None:
            return None
        if isinstance(found, (*blames_query, exc.ArgumentError, exc.CompileError)):
            raise self._refusal(found) from None
        return StorageUnavailableError(f"--storage {self.shown}: {self._words(found)}")

    def _words(self, error: Any) -> str:
        """Return the server's words on an error in one line, without the password."""
        text = str(getattr(error, "orig", None) or error)
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        line = next((each for each in lines if "FATAL" in each), lines[0] if lines else type(error).__name__)
        line = re.sub(r"^.*FATAL: ", "", line).removeprefix("connection failed: ")
        line = without_password(line, self._url)
        if "timeout expired" in line:  # not that of a lock, or a setting's name
            return "the server does not answer in time; is it running, and can it be reached from here?"
        if "refused" in line or "could not" in line or "failed to resolve" in line:
            return f"no server answers there ({line})"
        if "no password supplied" in line:
            return (
                "the server asks for a password, and none was given; give it in PGPASSWORD, in ~/.pgpass, or as "
                "USER:PASSWORD@HOST in BITSPIKE_STORAGE"
            )
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
            raise self._refusal(error) from None

    def _refusal(self, error: Any) -> ValueError:
        return ValueError(f"--storage {self.shown}: {self._words(error)}")


@contextmanager
def _locked(engine: Any, name: str) -> Iterator[None]:
    """Hold the server's lock of this name until the transaction ends, or the connection."""
    import sqlalchemy

    key = int.from_bytes(hashlib.blake2b(f"bitspike sweep {name}".encode(), digest_size=8).digest(), signed=True)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("select pg_advisory_xact_lock(:key)"), {"key": key})
        yield
