"""The command that opens a study in optuna-dashboard."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from bitspike.experiments.sweep.studies import FILE


def dashboard_command(folder: Path) -> str:
    """Return the command line that shows the study of a folder in a browser.

    The folder knows the address of a server without its password, which PostgreSQL's clients take from PGPASSWORD or
    ~/.pgpass.
    """
    address = json.loads((folder / FILE).read_text(encoding="utf-8"))["storage"]
    if address is None:
        return shlex.join(["optuna-dashboard", str(folder / "journal.log")])
    return shlex.join(["optuna-dashboard", address.replace("postgresql://", "postgresql+psycopg://", 1)])
