"""Images as samples: a whole set is in the memory of the training device, and batches are made there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.data.indexing import ImageSample, Indexed, groups_of, groups_on, labels_in_words
from bitspike.ops.available import fused_on_gpu
from bitspike.ops.batches.jitter import Jitter, factors, jittered


@dataclass(frozen=True, slots=True)
class Images(Indexed):
    """Images `values [N, C, H, W]`, uint8 (a pixel is value/255) or float32, with `labels [N]` int64.

    `groups [N]` int64 says which samples belong together, such as those of one person; None where that is not known.

    Examples:
        >>> import torch
        >>> from bitspike.data import Images
        >>> samples = Images(torch.full((5, 1, 8, 8), 51, dtype=torch.uint8), torch.arange(5))
        >>> samples
        Images(5 samples of (1, 8, 8), uint8, labels 0 to 4)
        >>> x, labels = samples.batch(torch.tensor([4, 0]))
        >>> x.shape, labels.tolist()
        (torch.Size([2, 1, 8, 8]), [4, 0])
        >>> round(x.max().item(), 4)  # bytes become numbers in [0, 1]
        0.2
    """

    values: Tensor
    labels: Tensor
    groups: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.values.shape[1:])

    @property
    def steps(self) -> None:
        """None: an image has no time steps of its own."""
        return None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        kind = str(self.values.dtype).removeprefix("torch.")
        return f"Images({len(self)} samples of {self.shape}, {kind}, {labels_in_words(self.labels)})"

    def figures(self) -> dict[str, float]:
        """Return figures for `bitspike data info`, other than shapes."""
        return {"bytes": self.values.numel() * self.values.element_size()}

    def to(self, device: torch.device | str) -> Images:
        return Images(self.values.to(device), self.labels.to(device), groups_on(self.groups, device))

    def select(self, rows: Tensor) -> Images:
        """Return the samples `rows` (whole numbers, or one truth value a sample), in that order."""
        return Images(
            self.values[rows.to(self.values.device)],
            self.labels[rows.to(self.labels.device)],
            groups_of(self.groups, rows),
        )

    def _sample(self, row: Tensor) -> ImageSample:
        values, labels = self.batch(row.to(self.labels.device))
        return ImageSample(values[0], int(labels))

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return images `[B, C, H, W]` float32 and labels `[B]`, on the device of the samples."""
        return self.jittered_batch(rows, Jitter(), rows)

    def jittered_batch(self, rows: Tensor, jitter: Jitter, key: Tensor, first_row: int = 0) -> tuple[Tensor, Tensor]:
        """Return a batch of images, moved and multiplied as drawn from `key` (an int64) and the place in the batch."""
        if self.values.dtype == torch.uint8 and fused_on_gpu(self.values.device):
            from bitspike.ops.batches.triton import gather_images

            return gather_images(self.values, self.labels, rows, jitter, key, first_row)
        values = self.values[rows]
        if jitter.shift:
            values = jittered(values, jitter, key, first_row)
        if values.dtype == torch.uint8:
            values = values.float().div_(255)
        if jitter.contrast:
            values = values * factors(jitter, len(values), key, first_row)
        return values, self.labels[rows]
