"""Studies and their folders: making one, joining one, and opening one to read it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import optuna
from filelock import FileLock, Timeout

from bitspike.experiments.sweep.facts import ATTRIBUTE, FORMAT, StudyFacts
from bitspike.experiments.sweep.samplers import NumberedSampler, make_pruner
from bitspike.experiments.sweep.storage import StudyStorage, open_storage
from bitspike.files import locked, require_folder, write_text

FILE = "study.json"
LONGEST_NAME = 512  # that Optuna keeps on a server
# What a process that was killed while it made a study may have left in the folder.
_LEFT_BEHIND = ("journal.log", ".journal.log.lock", ".claims.lock", ".study.lock", "trials")


@dataclass(frozen=True, slots=True, eq=False)
class OpenStudy:
    """A study that is open: Optuna's study, its facts, and the folder of its trials."""

    study: optuna.Study
    facts: StudyFacts
    folder: Path

    def trial_folder(self, number: int) -> Path:
        """Return the run folder of a trial."""
        return self.folder / "trials" / f"{number:05d}"


@dataclass(frozen=True, slots=True, eq=False)
class JoinedStudy(OpenStudy):
    """A study that this process works on. `place` names the folder: two machines may share it, or not."""

    storage: StudyStorage
    place: str

    def trial_lock(self, number: int) -> FileLock | None:
        """Return the lock of a trial, held; None if another process holds it."""
        trials = self.folder / "trials"
        trials.mkdir(exist_ok=True)
        lock = FileLock(trials / f".{number:05d}.lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock


def open_study(folder: Path, storage: str | None = None) -> OpenStudy:
    """Open the study of a folder to read it; `storage` is needed only where its address needs a password."""
    held = _read_file(folder)
    if held is None:
        raise ValueError(f"{folder} holds no study; `bitspike sweep run ... --out {folder}` makes one")
    if held["storage"] is None and storage is not None:
        raise ValueError(
            f"{folder} holds a study that is kept in a journal file; leave --storage and BITSPIKE_STORAGE out"
        )
    opened = open_storage(storage or held["storage"], folder, heartbeat=60)
    with _clearly(opened):
        facts = _kept_facts(opened, held["name"])
        if facts is None:
            raise ValueError(f"{opened.shown} no longer holds the study {held['name']!r} of {folder}")
        return OpenStudy(optuna.load_study(study_name=held["name"], storage=opened.optuna), facts, folder)


def join_study(folder: Path, name: str, facts: StudyFacts, address: str | None, heartbeat: int) -> JoinedStudy:
    """Open the study of this name to work on it, and make it if there is none; raise if its facts are others."""
    require_folder(folder, "choose another --out")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"the study's name must have at most {LONGEST_NAME} signs, but has {len(name)}; give --study")
    held = _read_file(folder)
    if held is None and folder.is_dir():
        strange = {each.name for each in folder.iterdir()} - set(_LEFT_BEHIND)
        if any(not each.startswith(".study-") for each in strange):
            raise ValueError(f"{folder} is not empty and holds no study; choose another --out")
    if held is not None:
        _require_same(StudyFacts.from_json(held["facts"], str(folder / FILE)), facts, str(folder))
        _require_same_storage(held, folder, name, address)
    storage = open_storage(address, folder, heartbeat)
    with _clearly(storage), storage.exclusive(name):
        kept = _kept_facts(storage, name)
        if kept is None and held is not None:
            raise ValueError(f"{storage.shown} no longer holds the study {name!r} of {folder}; choose another --out")
        study = optuna.create_study(
            study_name=name,
            storage=storage.optuna,
            directions=[each.direction for each in facts.objectives],
            sampler=NumberedSampler(facts.sampler, facts.seed),
            pruner=make_pruner(facts.pruner, int(facts.experiment["train"]["epochs"])),
            load_if_exists=True,
        )
        if kept is None:
            _name_metrics(study, facts)  # first: a study with facts is complete
            study.set_user_attr(ATTRIBUTE, facts.as_json())
        else:
            _require_same(kept, facts, f"the study {name!r} in {storage.shown}")
    return JoinedStudy(study, facts, folder, storage, _place(folder, name, storage, facts))


def _name_metrics(study: optuna.Study, facts: StudyFacts) -> None:
    """Tell Optuna what the values are: its dashboard shows the names. Studies of earlier versions have none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([each.name for each in facts.objectives])


@contextmanager
def _clearly(storage: StudyStorage) -> Iterator[None]:
    """Raise one line if the storage stops to answer."""
    try:
        yield
    except Exception as error:
        if (trouble := storage.trouble(error)) is not None:
            raise trouble from None
        raise


def _kept_facts(storage: StudyStorage, name: str) -> StudyFacts | None:
    """Return the facts of a study in the storage; None if it holds none, or one whose maker died before it wrote any.

    A study of others, in a server that several programs use, has trials but no facts of ours.
    """
    try:
        study_id = storage.optuna.get_study_id_from_name(name)
    except KeyError:
        return None
    held = storage.optuna.get_study_user_attrs(study_id).get(ATTRIBUTE)
    if held is None and not storage.optuna.get_n_trials(study_id):
        return None
    return StudyFacts.from_json(held, f"the study {name!r} in {storage.shown}")


def _require_same(before: StudyFacts, now: StudyFacts, where: str) -> None:
    if found := before.differences(now):
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        raise ValueError(
            f"{where} holds another study: {'; '.join(found[:3])}{more}; repeat the command that it was made with, or "
            "choose another --out (and --study, on a server)"
        )


def _require_same_storage(held: Mapping[str, Any], folder: Path, name: str, address: str | None) -> None:
    if held["name"] != name:
        raise ValueError(f"{folder} holds the study {held['name']!r}, not {name!r}; choose another --out")
    if (held["storage"] is None) != (address is None):
        there = "in a journal file; leave --storage out" if address else f"on {held['storage']}; give it as --storage"
        raise ValueError(f"{folder} holds a study that is kept {there}, or choose another --out")


def _read_file(folder: Path) -> dict[str, Any] | None:
    """Return what study.json holds; None if there is none."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        words = isinstance(held["name"], str) and isinstance(held["storage"], str | None)
        if held["format"] == FORMAT and words and {"place", "facts"} <= held.keys():
            return dict(held)
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise ValueError(f"{path} is damaged, or of another version of bitspike; choose another --out")


def _place(folder: Path, name: str, storage: StudyStorage, facts: StudyFacts) -> str:
    """Return the folder's own mark, which study.json holds; write the file if this is the first process here."""
    with locked(folder / ".study.lock"):
        held = _read_file(folder)
        if held is None:
            held = {
                "format": FORMAT,
                "name": name,
                "storage": storage.address,
                "place": uuid4().hex,
                "facts": facts.as_json(),
            }
            (folder / "trials").mkdir(exist_ok=True)
            write_text(folder / FILE, json.dumps(held, indent=2) + "\n")
    return str(held["place"])
