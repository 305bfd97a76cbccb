"""Recordings as a trained network hears them: the classes of WAV files, or of files with their spikes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from bitspike.data.binning import Binning, bin_events
from bitspike.data.config import DataConfig
from bitspike.data.datasets import binning_of
from bitspike.data.event_times import times_from_first
from bitspike.data.events import Events
from bitspike.data.progress import Progress, silent
from bitspike.data.speech.cochlea import encode_speech
from bitspike.data.speech.spike_files import DIGITS, UNITS, as_events, read_spikes
from bitspike.data.speech.wav import read_wav
from bitspike.experiments.saved import best_trial, load_network, made_with
from bitspike.experiments.schema import Experiment
from bitspike.text import printable
from bitspike.train.numerics import as_input, cast, reproducible
from bitspike.train.run_folder import RunFolder

SPIKE_FILES = (".npz", ".h5")


@dataclass(frozen=True, slots=True)
class Heard:
    """Recordings as spikes: `names [N]`, the spikes as `events`, and what a person should know of them."""

    names: list[str]
    events: Events
    notes: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The answer to one recording: the `confidence` of each class, and the spikes of each layer `[T, ...]`.

    The confidence is the softmax of the network's scores, scaled as in training with cross entropy. `label` is None if
    all scores are the same. `missed` is the share of spikes that come too late for the network's steps.
    """

    name: str
    label: int | None
    confidence: dict[str, float]
    missed: float
    layers: dict[str, Tensor]
    membrane: Tensor  # of the output

    @property
    def answer(self) -> str:
        """The class in words."""
        return "no answer" if self.label is None else list(self.confidence)[self.label]


def class_names(data: DataConfig, classes: int, kept: Sequence[str] = ()) -> list[str]:
    """Return the digits for SHD; else the names that the run has `kept`, and numbers for outputs without a name."""
    if data.name == "shd":
        return list(DIGITS[:classes])
    names = [*kept, *map(str, range(len(kept), classes))][:classes]
    return [f"class {name}" if name.isdecimal() else name for name in names]


def hear(files: Sequence[Path], *, seed: int = 0, trim: bool = True, progress: Progress = silent) -> Heard:
    """Return the spikes of recordings: WAV files are encoded with `seed`, .npz and .h5 files hold spikes already."""
    names: list[str] = []
    notes: list[str] = []
    found: list[Events] = []
    tick = progress("recordings", len(files))
    inner = progress if len(files) == 1 else silent  # a bar for each of many would fill the screen
    for path in files:
        if path.suffix in SPIKE_FILES:
            events = read_spikes(path)
            names += [str(path)] if len(events) == 1 else [f"{path}[{i}]" for i in range(len(events))]
        else:
            sound = read_wav(path)
            if sound.channels > 1:
                notes.append(f"{path}: {sound.channels} channels were mixed to one")
            events = as_events([encode_speech(sound.trimmed() if trim else sound, seed=seed, progress=inner)])
            names.append(str(path))
        found.append(events)
        tick()
    return Heard(names, joined(found), notes)


def joined(parts: Sequence[Events]) -> Events:
    """Return the samples of several sets of spikes as one."""
    import numpy as np

    t, x, labels = (np.concatenate([getattr(part, column) for part in parts]) for column in ("t", "x", "labels"))
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return Events(t, x, None, None, np.concatenate([[0], np.cumsum(lengths)]), labels, (UNITS,))


def from_first(events: Events) -> Events:
    """Return the same events, with the time of each sample from its first event on."""
    return replace(events, t=times_from_first(events.t, events.offsets))


class SpeechNetwork:
    """The best network of a run on spikes of 700 units; `predict` says what it hears."""

    def __init__(self, run: Path, device: torch.device | str = "cpu") -> None:
        self.run = best_trial(run)
        self.spec = made_with(self.run)
        self.device = torch.device(device)
        self.net = load_network(self.run, self.spec, self.device)
        self.binning = _binning(self.run, self.spec, self.net.input_shape)
        kept = (RunFolder(self.run).read_summary() or {}).get("class_names", [])
        self.names = [printable(str(name)) for name in kept] if isinstance(kept, list) else []

    def in_its_time(self, events: Events) -> Events:
        """Return spikes with the time of each sample from where the run's samples have it: from 0, or its first spike.

        The reader of one's own files counts from the first event unless `data.time_origin` is "zero"; that of SHD
        counts from 0.
        """
        data = self.spec.data
        return events if data.file is None or data.time_origin == "zero" else from_first(events)

    def predict(self, heard: Heard) -> list[Prediction]:
        """Return what the network says of each recording, one at a time."""
        events = self.in_its_time(heard.events)
        frames = bin_events(events, self.binning).to(self.device)
        late = events.t >= self.binning.end_us
        precision = self.spec.train.precision
        found = []
        with torch.no_grad(), reproducible(precision), cast(precision, self.device):
            for row, name in enumerate(heard.names):
                here = late[events.offsets[row] : events.offsets[row + 1]]
                x = frames.batch(torch.tensor([row], device=self.device))[0]
                found.append(self._said(name, x, float(here.mean()) if len(here) else 0.0))
        return found

    def _said(self, name: str, x: Tensor, missed: float) -> Prediction:
        with self.net.record() as layers:
            scores = self.net.scores(as_input(x, next(self.net.parameters()).dtype))[0].float().cpu()
        label = None if bool((scores == scores[0]).all()) else int(scores.argmax())
        sure = (self.spec.train.logit_scale * scores).softmax(0)  # as cross entropy trains it
        confidence = dict(zip(class_names(self.spec.data, len(scores), self.names), sure.tolist(), strict=True))
        spikes = {layer: output.spikes[:, 0].float().cpu() for layer, output in layers.items()}
        *_, output = layers.values()
        membrane = (output.spikes if output.membrane is None else output.membrane)[:, 0].float().cpu()
        return Prediction(name, label, confidence, missed, spikes, membrane)


def _binning(run: Path, spec: Experiment, input_shape: tuple[int, ...]) -> Binning:
    """Return how the run's samples were binned; raise unless it is known, for spikes of a line of 700 units."""
    refusal = (
        f"{run}: was trained on {_called(spec.data)}, whose samples have the shape {list(input_shape)}, but recordings "
        f"become spikes of {UNITS} units; predict takes a run on shd, or on files of bitspike encode"
    )
    if spec.data.passed is not None:
        raise ValueError(
            f"{run}: was trained on {spec.data.passed!r}, samples passed from Python, and no file says how they were "
            "binned, so that recordings cannot be; predict takes a run on shd, or on files of bitspike encode"
        )
    if spec.data.file is not None and spec.data.kind not in (None, "events"):
        raise ValueError(refusal)
    try:
        binning = binning_of(spec.data)
    except ValueError:
        raise ValueError(refusal) from None
    if input_shape != (UNITS // binning.downsample,):
        raise ValueError(refusal)
    return binning


def _called(data: DataConfig) -> str:
    if data.name is not None:
        return data.name
    return data.file.name if isinstance(data.file, Path) else " and ".join(path.name for path in data.file or ())
