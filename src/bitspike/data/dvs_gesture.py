"""The files of DVS128 Gesture: recordings with their labels, or gestures cut out of them, in folders or archives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bitspike.data.aedat import read_aedat
from bitspike.data.archives import Member, members, whole
from bitspike.data.array_files import Refused, read_npy, readable
from bitspike.data.events import Events
from bitspike.data.progress import Progress, silent
from bitspike.text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE, CLASSES = 128, 11
MOST_TEXT, MOST_RECORDING = 2**20, 2**29
MOST_OVERLAP = 4  # times the events of a recording that its gestures may hold together
LISTS = ("trials_to_train.txt", "trials_to_test.txt")
CUT = {"ibmGestureTrain": 1077, "ibmGestureTest": 264}  # and how many gestures were published
RECORDING = re.compile(r"(user\d{1,9}_\w+)\.aedat")
LABELS = re.compile(r"(user\d{1,9}_\w+)_labels\.csv")
GESTURE = re.compile(r"(user\d{1,9}_\w+)/(\d{1,2})\.npy")


class Gesture(NamedTuple):
    """One gesture: the columns of its events, its label, and the number of the person who made it."""

    t: NDArray[np.int64]
    x: NDArray[np.uint8]
    y: NDArray[np.uint8]
    p: NDArray[np.uint8]
    label: int
    user: int = 0


def read_dvs_gesture(path: Path, progress: Progress = silent) -> tuple[Events, Events]:
    """Return training and test gestures, 128 x 128, labels 0..10; time counts from each gesture's first event.

    The persons who made the gestures are the groups of the samples.
    `path` is the published DvsGesture.tar.gz or its extracted folder, or a folder that holds one of them, or one that
    holds ibmGestureTrain and ibmGestureTest (gestures cut out, an npy file each), as folders or .tar.gz.
    """
    source = _source(path)
    if isinstance(source, Path):
        train, test = _read_recordings(source, progress)
    else:
        train, test = (_read_cut(half, progress) for half in source)
    return _joined(train), _joined(test)


def _source(path: Path) -> Path | tuple[Path, Path]:
    """Return the folder or archive of recordings, or the two folders or archives of cut gestures."""
    if path.is_file() and not path.name.startswith(tuple(CUT)):
        return path
    folder = path if path.is_dir() and path.name not in CUT else path.parent
    for place in (folder, folder / "DvsGesture"):
        if (place / LISTS[0]).is_file():
            return place
    if (folder / "DvsGesture.tar.gz").is_file():
        return folder / "DvsGesture.tar.gz"
    halves = [next((p for p in (folder / name, folder / f"{name}.tar.gz") if p.exists()), None) for name in CUT]
    if halves[0] is not None and halves[1] is not None:
        return halves[0], halves[1]
    raise FileNotFoundError(
        f"{path}: no DVS128 Gesture here; looked for DvsGesture.tar.gz, the folder DvsGesture with {LISTS[0]}, "
        f"and {' with '.join(CUT)} as folders or .tar.gz"
    )


# ---- The published recordings


def _read_recordings(path: Path, progress: Progress) -> tuple[list[Gesture], list[Gesture]]:
    lists, spans = _read_texts(path)
    trials = {name: half for half, names in enumerate(lists) for name in names}
    for name in trials:
        if name not in spans:
            raise ValueError(f"{path}: must hold {name}_labels.csv, which {LISTS[trials[name]]} asks for, but does not")
    step = progress("reading gestures", len(trials))
    found: dict[str, list[Gesture]] = {}
    for member in members(path):
        match = RECORDING.fullmatch(PurePosixPath(member.name).name)
        if match is None or match[1] not in trials:
            continue
        where = f"{path}: {member.name}"
        if match[1] in found:
            raise ValueError(f"{where} is there twice")
        _require_size(where, member, MOST_RECORDING)
        with whole(path), member.open() as stream:
            found[match[1]] = _cut(where, stream, spans[match[1]])
        step()
    missing = [name for name in trials if name not in found]
    if missing:
        raise ValueError(
            f"{path}: must hold {missing[0]}.aedat, which {LISTS[trials[missing[0]]]} asks for, but does not"
        )
    train, test = ([_of_user(name, gesture) for name in names for gesture in found[name]] for names in lists)
    return train, test


def _of_user(recording: str, gesture: Gesture) -> Gesture:
    """Return the gesture with its person's number, from a recording's name such as user01_led."""
    return gesture._replace(user=int(recording.removeprefix("user").partition("_")[0]))


def _read_texts(path: Path) -> tuple[list[list[str]], dict[str, list[tuple[int, int, int]]]]:
    """Return the trials of the two lists, and (label, start, end) of every gesture in each trial.

    This is a first pass over the files: in an archive, the labels come after the recordings.
    """
    lists: dict[str, list[str]] = {}
    spans: dict[str, list[tuple[int, int, int]]] = {}
    for member in members(path):
        name = PurePosixPath(member.name).name
        labels = LABELS.fullmatch(name)
        if labels is None and name not in LISTS:
            continue
        where = f"{path}: {member.name}"
        if name in lists or (labels is not None and labels[1] in spans):
            raise ValueError(f"{where} is there twice")
        _require_size(where, member, MOST_TEXT)
        with whole(path), member.open() as stream:
            text = stream.read(MOST_TEXT).decode("utf-8-sig", "replace")
        if labels is None:
            lists[name] = _trials(where, text)
        else:
            spans[labels[1]] = _spans(where, text)
    missing = [name for name in LISTS if name not in lists]
    if missing:
        raise ValueError(f"{path}: must hold {missing[0]}, the list of recordings, but does not")
    train, test = (lists[name] for name in LISTS)
    both = sorted(set(train) & set(test))
    if both:
        raise ValueError(f"{path}: a recording must be in one list, but {both[0]} is in both")
    return [train, test], spans


def _trials(where: str, text: str) -> list[str]:
    names = [line.strip() for line in text.splitlines() if line.strip()]
    for name in names:
        if RECORDING.fullmatch(name) is None:
            raise ValueError(f"{where}: must list files such as user01_led.aedat, but lists {name[:60]!r}")
    return list(dict.fromkeys(name.removesuffix(".aedat") for name in names))


def _spans(where: str, text: str) -> list[tuple[int, int, int]]:
    spans = []
    for number, line in enumerate(text.splitlines(), 1):
        row = line.split(",")
        if not line or (number == 1 and not row[0].strip().isdecimal()):  # names: class, startTime_usec, endTime_usec
            continue
        shown = printable(line)[:60]
        try:
            label, start, end = (int(field) for field in row)
        except ValueError:
            raise ValueError(
                f"{where}: line {number} must be class,start,end as whole numbers, but is {shown!r}"
            ) from None
        if not 1 <= label <= CLASSES or not 0 <= start <= end < 2**62:
            raise ValueError(
                f"{where}: line {number} must be a class in 1..{CLASSES}, a start and a later end: {shown}"
            )
        spans.append((label - 1, start, end))
    return spans


def _cut(where: str, stream: IO[bytes], spans: Sequence[tuple[int, int, int]]) -> list[Gesture]:
    """Return the gestures of a recording: the events of each span, its end excluded; spans may overlap."""
    t, x, y, p = read_aedat(stream, where)
    if (t[1:] < t[:-1]).any():
        order = np.argsort(t, kind="stable")
        t, x, y, p = t[order], x[order], y[order], p[order]
    gestures = []
    held = 0
    for label, start, end in spans:
        here = slice(*np.searchsorted(t, (start, end)).tolist())
        held += here.stop - here.start
        if held > MOST_OVERLAP * len(t):  # each gesture has its own copy of its events
            raise ValueError(f"{where}: its gestures must not overlap so much: together they hold over {held} events")
        gestures.append(_gesture(where, t[here], x[here], y[here], p[here], label))
    if spans and not held:
        raise ValueError(
            f"{where}: none of its {len(spans)} gestures has an event; get the recording and its labels again"
        )
    return gestures


def _gesture(where: str, t: NDArray[Any], x: NDArray[Any], y: NDArray[Any], p: NDArray[Any], label: int) -> Gesture:
    """Return a gesture from checked columns, in small dtypes; time counts from the first event."""
    for name, values, size in (("x", x, SIDE), ("y", y, SIDE), ("p", p, 2)):
        if len(values) and not (values.min() >= 0 and values.max() < size):
            raise ValueError(f"{where}: {name} must be in 0..{size - 1}, but goes over {values.min()}..{values.max()}")
        if not np.array_equal(values, values.astype(np.uint8)):
            raise ValueError(f"{where}: {name} must be whole numbers, but some are fractions")
    return Gesture(t - t[:1], x.astype(np.uint8), y.astype(np.uint8), p.astype(np.uint8), label)


# ---- The gestures cut out


def _read_cut(path: Path, progress: Progress) -> list[Gesture]:
    """Return the gestures of files userXX_light/LABEL.npy, sorted by recording and label."""
    found: dict[tuple[str, int], Gesture] = {}
    name = path.name.partition(".")[0]
    # An archive would have to be unpacked twice to know how many it holds.
    step = progress(f"reading {name}", sum(1 for _ in members(path)) if path.is_dir() else CUT[name])
    for member in members(path):
        match = GESTURE.fullmatch("/".join(PurePosixPath(member.name).parts[-2:]))
        if match is not None:
            where, key = f"{path}: {member.name}", (match[1], int(match[2]))
            if key in found:
                raise ValueError(f"{where} is there twice")
            if key[1] >= CLASSES:
                raise ValueError(f"{where}: the name of a file is its label, 0..{CLASSES - 1}")
            _require_size(where, member, MOST_RECORDING)
            with whole(path), readable(where), member.open() as stream:
                found[key] = _cut_gesture(where, read_npy(stream, member.size), key[1])
        step()
    if not found:
        raise ValueError(f"{path}: must hold files such as user01_led/0.npy, but has none")
    return [_of_user(key[0], found[key]) for key in sorted(found)]


def _cut_gesture(where: str, values: NDArray[Any], label: int) -> Gesture:
    """Return a gesture from an array [E, 4] of x, y, p and milliseconds, or with fields x, y, p and t.

    A field t of whole numbers holds microseconds.
    """
    if values.dtype.names is not None and {"x", "y", "p", "t"} <= set(values.dtype.names):
        x, y, p, t = (values[name] for name in "xypt")
    elif values.ndim == 2 and values.shape[1] == 4 and values.dtype.kind == "f":
        x, y, p, t = values.T
    else:
        raise Refused(f"must be floats [E, 4] or have fields x, y, p and t, but is {values.dtype} {list(values.shape)}")
    if not all(column.ndim == 1 and column.dtype.kind in "iufb" for column in (x, y, p, t)):
        raise Refused(f"x, y, p and t must be lists of numbers, but are {values.dtype} {list(values.shape)}")
    if t.dtype.kind == "f" and np.isnan(t).any():
        raise Refused(f"t must be at least 0, but {int(np.isnan(t).sum())} of {len(t)} are NaN")
    if len(t) and not (t.min().item() >= 0 and t.max().item() < 2**40):
        raise Refused(f"t must be at least 0, but goes over {t.min()}..{t.max()}")
    t = np.rint(t.astype(np.float64) * 1000).astype(np.int64) if t.dtype.kind == "f" else t.astype(np.int64)
    order = np.argsort(t, kind="stable")
    return _gesture(where, t[order], x[order], y[order], p[order], label)


def _require_size(where: str, member: Member, most: int) -> None:
    if member.size > most:
        raise ValueError(f"{where}: must be of at most {most} bytes, but has {member.size}")


def _joined(gestures: list[Gesture]) -> Events:
    if not gestures:
        raise ValueError("DVS128 Gesture: no gestures were found")
    offsets = np.cumsum([0, *(len(gesture.t) for gesture in gestures)])
    labels = np.array([gesture.label for gesture in gestures], dtype=np.int64)
    t, x, y, p = (np.concatenate([gesture[column] for gesture in gestures]) for column in range(4))
    users = np.array([gesture.user for gesture in gestures], dtype=np.int64)
    return Events(t, x, y, p, offsets, labels, (SIDE, SIDE), users, "first")
