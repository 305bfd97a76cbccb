"""A web server for whatever fetches, and a data root that cannot be written."""

import tempfile
import threading

import pytest

from bitspike.data import download as module
from bitspike.data import known_files, roots
from helpers.http import Server


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(module, "PAUSE_S", 0.001)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def unwritable(tmp_path, monkeypatch):
    """A data root that nobody can write, root included, and a user's cache of its own."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
    monkeypatch.setattr(roots, "_users_cache", lambda: tmp_path / "users" / "bitspike")
    return tmp_path / "file" / "root"


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """No local copy but what a test puts into `data`."""
    (tmp_path / "here" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(roots, "LOCAL", ("data",))
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "root"))


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def local(tmp_path):
    return tmp_path / "here" / "data"


@pytest.fixture
def summed(monkeypatch):
    """The files whose checksum was taken for a check."""
    seen = []
    digest = known_files.digest
    monkeypatch.setattr(known_files, "digest", lambda path, *a: seen.append(path.name) or digest(path, *a))
    return seen
