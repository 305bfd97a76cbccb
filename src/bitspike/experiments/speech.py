"""Recordings as a trained network hears them: the classes of WAV files, or of files with their spikes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from bitspike.data.event_times import times_from_first
from bitspike.data.events import Events
from bitspike.data.progress import Progress, silent
from bitspike.data.speech.cochlea import encode_speech
from bitspike.data.speech.spike_files import UNITS, as_events, read_spikes
from bitspike.data.speech.wav import read_wav
from bitspike.experiments.model_input import binning_by, class_names
from bitspike.experiments.predicting.event_files import binned, not_heard
from bitspike.experiments.predicting.files import Given
from bitspike.experiments.predicting.networks import RunNetwork
from bitspike.experiments.predicting.predictions import Prediction, predict

__all__ = ["Heard", "Prediction", "SpeechNetwork", "class_names", "from_first", "hear", "joined"]
SPIKE_FILES = (".npz", ".h5")


@dataclass(frozen=True, slots=True)
class Heard:
    """Recordings as spikes: `names [N]`, the spikes as `events`, and what a person should know of them."""

    names: list[str]
    events: Events
    notes: list[str]


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


class SpeechNetwork(RunNetwork):
    """The best network of a run on spikes of 700 units; `predict` says what it hears."""

    def __init__(self, run: Path, device: torch.device | str = "cpu") -> None:
        super().__init__(run, device)
        if self.spec.data.passed is not None:
            raise ValueError(
                f"{self.run}: was trained on {self.trained_on.title}, and no file says how they were binned, so that "
                "recordings cannot be; predict takes a run on shd, or on files of bitspike encode"
            )
        if not self.trained_on.hears_recordings:
            raise ValueError(f"{self.run}: was trained on {not_heard(self.trained_on)}")
        self.binning = binning_by(self.trained_on.input)

    def in_its_time(self, events: Events) -> Events:
        """Return spikes with the time of each sample from where the run's samples have it: from 0, or its first spike.

        The reader of one's own files counts from the first event unless `data.time_origin` is "zero"; that of SHD
        counts from 0.
        """
        return events if self.trained_on.input.origin == "zero" else from_first(events)

    def predict(self, heard: Heard) -> list[Prediction]:
        """Return what the network says of each recording, with the spikes of all layers."""
        part = binned(Path(heard.names[0]), heard.events, self.trained_on, None, heard.notes)
        given = Given(heard.names, part.samples, part.expected, part.notes, part.missed, [])
        return predict(self, given, keep=True)
