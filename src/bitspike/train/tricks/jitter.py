"""A trick that moves training images, and makes them brighter or darker, differently in every iteration."""

from __future__ import annotations

from torch import Tensor

from bitspike.data.samples import Images, Samples
from bitspike.nn import SpikingNetwork
from bitspike.ops.batches.jitter import Jitter
from bitspike.train.config import TrainConfig
from bitspike.train.tricks.trick import Fetch, Setup, Trick


class JitterImages(Trick):
    """`train.shift` moves images, `train.contrast` multiplies them; evaluations see them as they are."""

    name = "jitter"
    fields = ("shift", "contrast")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.jitter = Jitter(setup.config.shift, setup.config.contrast)

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return a refusal for samples that are not images."""
        if isinstance(samples, Images):
            return None
        return f"{cls.asked_by(config)} belongs to images, but {title} holds none; leave it out"

    def batch(self, fetch: Fetch, rows: Tensor, *, first_row: int, key: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images `rows`, moved and multiplied; on a GPU one kernel gathers and changes them."""
        if isinstance(self.setup.samples, Images):
            return self.setup.samples.jittered_batch(rows, self.jitter, key, first_row)
        return fetch(rows)
