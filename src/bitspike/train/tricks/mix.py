"""A trick that mixes training samples: each takes a part, and that share of the loss, from another one."""

from __future__ import annotations

from torch import Tensor

from bitspike.data.samples import Images, Samples
from bitspike.nn import SpikingNetwork
from bitspike.ops.available import fused_on_gpu
from bitspike.train.config import TrainConfig
from bitspike.train.labels import Labels, MixedLabels, own_labels
from bitspike.train.tricks.trick import Fetch, Setup, Trick


class MixSamples(Trick):
    """`train.mix` is the largest share of its places that a sample takes from another sample of its batch.

    From a row of channels it takes any channels, from a camera a rectangle of pixels. The other of sample b in a batch
    of B is sample B - 1 - b. The loss takes both classes as the share says; a sample is right if its own class is
    found. It is for events, and for one process.
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

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return a refusal for samples that are not events."""
        return (
            f"train.mix belongs to events, but {title} holds none; set it to 0" if isinstance(samples, Images) else None
        )

    def batch(self, fetch: Fetch, rows: Tensor, *, first_row: int, key: Tensor) -> tuple[Tensor, Labels]:
        """Return the samples `rows`, mixed; on a GPU one kernel does it."""
        counts, labels = fetch(rows)
        if fused_on_gpu(counts.device):
            from bitspike.ops.batches.triton import mixed_counts
        else:
            from bitspike.ops.batches.mix import mixed_counts
        mixed, share = mixed_counts(counts, self.setup.config.mix, key)
        own = own_labels(labels)
        return mixed, MixedLabels(own, own.flip(0), share)
