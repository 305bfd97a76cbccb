"""Studies and their folders: making one, joining one, and opening one to read it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bitspike.experiments.sweep.facts import ATTRIBUTE, StudyFacts

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True, slots=True, eq=False)
class OpenStudy:
    """A study that is open: Optuna's study, its facts, and the folder of its trials."""

    study: optuna.Study
    facts: StudyFacts
    folder: Path


def open_study(folder: Path, storage: str | None = None) -> OpenStudy:
    """Open the study of a folder to read it; `storage` is needed only where its address needs a password."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    held = json.loads((folder / "study.json").read_text())
    study = optuna.load_study(
        study_name=held["name"], storage=JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    )
    return OpenStudy(study, StudyFacts.from_json(study.user_attrs[ATTRIBUTE], str(folder)), folder)
