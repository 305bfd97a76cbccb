"""A trick that mixes training samples: each takes some channels, and a share of the loss, from another one."""

from __future__ import annotations

from torch import Tensor

from bitspike.data.samples import Images, Samples
from bitspike.nn import SpikingNetwork
from bitspike.ops.available import fused_on_gpu
from bitspike.train.config import TrainConfig
from bitspike.train.labels import Labels, MixedLabels, own_labels
from bitspike.train.tricks.trick import Fetch, Setup, Trick


class MixSamples(Trick):
    """`train.mix` is the largest share of channels that a sample takes from another sample of its batch.

    The other of sample b in a batch of B is sample B - 1 - b. The loss takes both classes as the share of channels
    says; a sample is right if its own class is found. It is for events of a row of channels, and for one process.
    """

    name = "mix"
    fields = ("mix",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.processes > 1:
            raise ValueError(
                f"train.mix takes channels from samples of the whole batch, but {setup.processes} processes share it; "
                "train in one process, or set it to 0"
            )

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return a refusal for samples that are not events of a row of channels."""
        if not isinstance(samples, Images) and len(samples.shape) == 1:
            return None
        return f"train.mix is for events of a row of channels, but a sample of {title} has another form; set it to 0"

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
