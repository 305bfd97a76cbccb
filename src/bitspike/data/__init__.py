"""Datasets by name, encoders, and speech as spikes."""

from typing import TYPE_CHECKING, Any

__all__ = [
    "Dataset",
    "Finding",
    "Frames",
    "Images",
    "Profile",
    "Sound",
    "Spikes",
    "dataset_from_torch",
    "encode_speech",
    "findings",
    "from_torch",
    "latency",
    "load",
    "poisson",
    "profile",
    "read_wav",
    "time_first",
]

if TYPE_CHECKING:
    from pathlib import Path

    from bitspike.data.encoders import latency, poisson
    from bitspike.data.finding import Finding
    from bitspike.data.indexing import time_first
    from bitspike.data.mistakes import findings
    from bitspike.data.profiles import Profile, profile
    from bitspike.data.progress import Progress
    from bitspike.data.samples import Dataset, Frames, Images
    from bitspike.data.speech.cochlea import Spikes, encode_speech
    from bitspike.data.speech.sound import Sound
    from bitspike.data.speech.wav import read_wav
    from bitspike.data.torch_datasets import dataset_from_torch, from_torch
else:
    from bitspike._lazy import lazy

    __getattr__, __dir__ = lazy(
        __name__,
        {
            "bitspike.data.encoders": ["latency", "poisson"],
            "bitspike.data.finding": ["Finding"],
            "bitspike.data.mistakes": ["findings"],
            "bitspike.data.indexing": ["time_first"],
            "bitspike.data.profiles": ["Profile", "profile"],
            "bitspike.data.samples": ["Dataset", "Frames", "Images"],
            "bitspike.data.speech.cochlea": ["Spikes", "encode_speech"],
            "bitspike.data.speech.sound": ["Sound"],
            "bitspike.data.speech.wav": ["read_wav"],
            "bitspike.data.torch_datasets": ["dataset_from_torch", "from_torch"],
        },
    )


def load(
    name: "str | Path", *, root: "Path | None" = None, progress: "Progress | None" = None, **options: Any
) -> "Dataset":
    """Return the dataset `name` with its training and test samples, read from the data folder or from a copy.

    `options` are the fields of an experiment's [data] table: `load("shd", bin_ms=2, steps=500)`. `name` may also be a
    TOML file with such a table, `load("mine.toml")`; `options` then take the place of its fields. What a base recipe
    adds, such as `downsample` for a large camera, is in the `experiment.toml` of a run. `root` is the data folder
    (default: BITSPIKE_DATA, else the platform's). `bitspike data fetch NAME` gets what is not here.

    Examples:
        >>> import bitspike
        >>> data = bitspike.data.load("coding")  # made, not read; "mnist" reads the data folder
        >>> data
        Dataset('Temporal coding', 'built in': 1 / 1 samples of (100,), 1 classes)
        >>> x, label = data.train[0]
        >>> x.shape  # [T, ...]
        torch.Size([100, 100])
    """
    import bitspike.config  # noqa: F401  (first: it says what to install)
    from bitspike.data.datasets import load_dataset

    return load_dataset(name, root=root, progress=progress, **options)
