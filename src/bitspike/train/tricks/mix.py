"""A trick that mixes training samples: each takes a part from another one, and that share of the loss."""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.data.samples import Images, Samples
from bitspike.nn import SpikingNetwork
from bitspike.ops.available import fused_on_gpu
from bitspike.ops.batches.mix import same_class
from bitspike.train.config import TrainConfig
from bitspike.train.labels import Labels, MixedLabels, own_labels
from bitspike.train.tricks.trick import Fetch, Setup, Trick


class MixSamples(Trick):
    """A sample takes a share of its places from another one; it draws the share from 0 to `train.mix`.

    Of a row of channels it takes each with that probability, of a camera a rectangle of pixels. With
    `train.mix_with = "any"` the other of sample b in a batch of B is sample B - 1 - b; the loss takes both classes as
    the share says, and a sample is right if its own class is found. With "class" the other is any training sample of
    the same class, say of another speaker, and the loss stays as it is. It is for events, and for one process.
    """

    name = "mix"
    fields = ("mix",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.processes > 1:
            raise ValueError(
                f"train.mix takes parts of any sample of the batch, but {setup.processes} processes share the batch; "
                "train in one process, or set it to 0"
            )
        labels = setup.samples.labels
        self.table = labels.argsort(stable=True)
        self.starts = torch.nn.functional.pad(torch.bincount(labels).cumsum(0), (1, 0))

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return a refusal for samples that are not events."""
        return (
            f"train.mix belongs to events, but {title} holds none; set it to 0" if isinstance(samples, Images) else None
        )

    def batch(self, fetch: Fetch, rows: Tensor, *, first_row: int, key: Tensor) -> tuple[Tensor, Labels]:
        """Return the samples `rows`, mixed; on a GPU one kernel does it."""
        mix = self.setup.config.mix
        if self.setup.config.mix_with == "class":
            labels = self.setup.samples.labels[rows]
            both, _ = fetch(torch.cat((rows, same_class(labels, self.table, self.starts, key))))  # changed apart
            counts, others = both.tensor_split(2, 1)
            return _mixed(counts, others, mix, key)[0], labels
        counts, found = fetch(rows)
        mixed, share = _mixed(counts, None, mix, key)
        own = own_labels(found)
        return mixed, MixedLabels(own, own.flip(0), share)


def _mixed(counts: Tensor, others: Tensor | None, mix: float, key: Tensor) -> tuple[Tensor, Tensor]:
    """Return counts with parts of `others`, or of `counts.flip(1)`, and the share that each sample has taken."""
    if fused_on_gpu(counts.device):
        from bitspike.ops.batches import triton

        return triton.mixed_counts(counts, others, mix, key)
    from bitspike.ops.batches.mix import mixed_counts

    return mixed_counts(counts, counts.flip(1) if others is None else others, mix, key)
