"""Facts that tonic's data sets tell beside events and labels: sensor, class names, recordings of slices."""

from __future__ import annotations

from typing import Any


def tonic_size(dataset: Any) -> tuple[int, int, int] | None:
    """Return tonic's (width, height, polarities) of a data set, or of the one that a Subset is of; None if unknown."""
    while not hasattr(dataset, "sensor_size") and getattr(dataset, "dataset", None) is not None:
        dataset = dataset.dataset
    size = getattr(dataset, "sensor_size", None)
    if not isinstance(size, (tuple, list)) or len(size) != 3 or not all(isinstance(each, int) for each in size):
        return None
    return size[0], size[1], size[2]


def names_in(classes: Any) -> tuple[str, ...]:
    """Return the names of classes as text: a list, or an array of bytes as SHD's; nothing if they are no names.

    Examples:
        >>> import numpy as np
        >>> from bitspike.data.tonic_datasets import names_in
        >>> names_in(np.array([b"zero", b"one"])), names_in(["up", "down"]), names_in({"up": 0})
        (('zero', 'one'), ('up', 'down'), ())
    """
    names = classes.tolist() if hasattr(classes, "tolist") else classes
    if not isinstance(names, (list, tuple)):
        return ()
    try:
        texts = [name.decode() if isinstance(name, bytes) else name for name in names]
    except UnicodeDecodeError:
        return ()
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()


def recordings_of(dataset: Any) -> list[int] | None:
    """Return the recording of each slice of tonic's SlicedDataset, of a cache or of a Subset of one; else None."""
    if hasattr(dataset, "slice_dataset_map"):
        return [int(recording) for recording, _ in dataset.slice_dataset_map]
    inner = getattr(dataset, "dataset", None)
    found = None if inner is None else recordings_of(inner)
    if found is None or not hasattr(dataset, "indices"):
        return found
    return [found[index] for index in dataset.indices]  # a Subset has samples in an order of its own


def refuse_images(values: Any, size: tuple[int, int, int] | None) -> None:
    """Raise if a sample of a camera's data set is one image [polarities, height, width], and not frames of them."""
    if size is None or size[1] == 1 or tuple(getattr(values, "shape", ())) != (size[2], size[1], size[0]):
        return
    raise ValueError(
        f"from_torch: sample 0 is one image [polarities, height, width], {list(values.shape)}, but frames are [T, ...];"
        " tonic.transforms.ToFrame makes frames, and images are bitspike.data.Images(values, labels)"
    )
