"""Plain values as a network takes them: spikes in time steps, or images, of which no rule is known."""

from __future__ import annotations

from pathlib import Path

from bitspike.data.event_files import read_image_file, read_spike_file
from bitspike.data.samples import Samples
from bitspike.experiments.predicting.file_samples import (
    ARRAY_FILES,
    FileSamples,
    ReadOptions,
    arrays_in,
    labels_of,
    require_array,
    require_sizes,
)
from bitspike.experiments.predicting.trained_on import TrainedOn


def read_values(path: Path, trained_on: TrainedOn, options: ReadOptions) -> FileSamples:
    """Return the samples of an npz or HDF5 file, `spikes [N, T, ...]` or `images [N, ...]`, as they are."""
    if path.suffix.lower() not in ARRAY_FILES:
        raise ValueError(
            f"{path}: the network was trained on {trained_on.title}, and nothing says how such a file becomes a "
            "sample; "
            "give an npz or HDF5 file with spikes [N, T, ...] or images [N, ...]"
        )
    names = arrays_in(path)
    if "images" not in names:
        require_array(path, names, "spikes", "spikes [N, T, ...] or images")
    samples: Samples = (read_spike_file if "spikes" in names else read_image_file)(path, labelled=False)
    require_sizes(path, samples.shape, trained_on)
    expected, notes = labels_of(path, trained_on, len(samples), names)
    return FileSamples(samples, expected, notes)
