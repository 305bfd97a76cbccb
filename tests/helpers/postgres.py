"""A PostgreSQL server of a test's own: on a free port, in a temporary folder, as a user that is not root."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

PASSWORD = "pa/ss@w:rd%9"  # signs that an address must encode
ENCODED = "pa%2Fss%40w%3Ard%259"


def find_tools():
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in folders if (each / "initdb").exists() and (each / "pg_ctl").exists()), None)


class Server:
    """A server that can be stopped and started again; `address()` is its URL."""

    def __init__(self, folder, tools, user):
        self.folder, self.tools, self.user = folder, tools, user
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def address(self, database="postgres", password=ENCODED):
        return f"postgresql://sweeper:{password}@127.0.0.1:{self.port}/{database}"

    def make(self):
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "-D", self.folder / "data", "-U", "sweeper", "--auth=scram-sha-256", f"--pwfile={secret}",
            "--no-sync", "--encoding=UTF8", "--locale=C",
        )  # fmt: skip

    def start(self):
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=60"
        self._run(
            *("pg_ctl", "-D", self.folder / "data", "-w", "-t", "60", "-l", self.folder / "log"), "-o", options, "start"
        )

    def stop(self, mode="fast"):
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-m", mode, "stop")

    def first(self):
        """The number of its first process, which starts all others."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    @contextmanager
    def frozen(self):
        """For as long as the context lasts, the server takes questions and never answers."""
        first = self.first()
        frozen = [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in frozen:
                with suppress(ProcessLookupError):  # it ended, as the one that asked did
                    os.kill(pid, signal.SIGCONT)

    def sql(self, text, database="postgres"):
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            return connection.execute(text)

    def _run(self, tool, *arguments):
        user = {} if self.user is None else {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        with (self.folder / "told").open("a") as told:  # a pipe would be held open by the server
            done = subprocess.run(
                [str(self.tools / tool), *map(str, arguments)],
                **user,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=120,
            )
        assert done.returncode == 0, (self.folder / "told").read_text()


@contextmanager
def running_server(tools):
    """A server for as long as the context lasts."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a short path: sockets have short names
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    server = Server(folder, tools, user)
    try:
        server.make()
        server.start()
        yield server
        server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
