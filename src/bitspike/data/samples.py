"""Samples for training, images or binned events, and the data set that they make up."""

from __future__ import annotations

from dataclasses import dataclass

from bitspike.data.frames import Frames, frames, frames_from_dense
from bitspike.data.images import Images

__all__ = ["Dataset", "Frames", "Images", "Samples", "frames", "frames_from_dense"]

Samples = Images | Frames


def _require_equal_bins(train: Samples, other: Samples | None, split: str) -> None:
    """Raise if the samples have time bins of another width than the training samples; the number may differ."""
    if not isinstance(train, Frames) or not isinstance(other, Frames) or train.tally is None or other.tally is None:
        return
    if other.tally.bin_us != train.tally.bin_us:
        width = f"{train.tally.bin_us / 1000:g}"
        raise ValueError(
            f"Dataset: training samples have time bins of {width} ms, but {split} samples of "
            f"{other.tally.bin_us / 1000:g} ms; bin these as in training: bin_ms={width}, steps={train.steps}"
        )


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set ready for training. `edition` says which files these are, where several exist.

    `group_names` says what the samples' groups are, such as "speakers"; it is empty where the set has none.
    `class_names` has one name for each class; a set without names has the numbers "0", "1" and so on. `file_labels` has
    the label of each class in the user's own files, and `group_labels` the name of each group that is text there; both
    are empty otherwise. `valid` holds the samples of `data.validation_file`, or None.

    Examples:
        >>> import torch
        >>> from bitspike.data import Dataset, Images
        >>> train = Images(torch.zeros(6, 1, 8, 8), torch.arange(6) % 2)
        >>> test = Images(torch.zeros(2, 1, 8, 8), torch.arange(2))
        >>> data = Dataset("mine", "My images", classes=2, train=train, test=test)
        >>> data
        Dataset('My images', 'published': 6 / 2 samples of (1, 8, 8), 2 classes)
        >>> data.class_names
        ('0', '1')
    """

    name: str
    title: str
    classes: int
    train: Samples
    test: Samples
    edition: str = "published"
    group_names: str = ""
    class_names: tuple[str, ...] = ()
    valid: Samples | None = None
    file_labels: tuple[str, ...] = ()
    group_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.class_names or tuple(map(str, range(self.classes)))
        if len(names) != self.classes:
            raise ValueError(f"Dataset: class_names must be {self.classes}, one a class, but are {len(names)}")
        object.__setattr__(self, "class_names", names)
        for split, samples in (("test", self.test), ("validation", self.valid)):
            _require_equal_bins(self.train, samples, split)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample at one time step."""
        return self.train.shape

    def __repr__(self) -> str:
        return (
            f"Dataset({self.title!r}, {self.edition!r}: {len(self.train)} / {len(self.test)} samples of {self.shape}, "
            f"{self.classes} classes)"
        )
