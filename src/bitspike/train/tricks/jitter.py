"""A trick that changes training samples a little, differently in every iteration: moved, brighter, slower."""

from __future__ import annotations

from torch import Tensor

from bitspike.data.samples import Images, Samples
from bitspike.nn import SpikingNetwork
from bitspike.ops.batches.event_jitter import EventJitter
from bitspike.ops.batches.jitter import Jitter
from bitspike.train.config import TrainConfig
from bitspike.train.labels import Labels
from bitspike.train.tricks.trick import Fetch, Setup, Trick

IMAGES_ONLY = ("contrast",)
TIMES = ("stretch", "time_shift")
EVENTS_ONLY = (*TIMES, "zoom", "thin")


class JitterSamples(Trick):
    """`train.shift` moves samples; `train.contrast` multiplies images; `train.stretch`, `train.time_shift` change time.

    `train.zoom` moves events away from the middle of the sensor or towards it, `train.thin` loses some. Evaluations see
    samples as they are.
    """

    name = "jitter"
    fields = ("shift", *IMAGES_ONLY, *EVENTS_ONLY)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        config = setup.config
        self.images = Jitter(config.shift, config.contrast)
        self.events = EventJitter(config.shift, config.stretch, config.time_shift, config.zoom, config.thin)

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return a refusal for a setting that does not belong to samples of this kind, or to labels that are times."""
        images = isinstance(samples, Images)
        for field in EVENTS_ONLY if images else IMAGES_ONLY:
            if getattr(config, field):
                kind = "events" if images else "images"
                return f"train.{field} belongs to {kind}, but {title} holds none; leave it out"
        for field in TIMES if config.loss == "trace" else ():
            if getattr(config, field):
                return f"train.{field} changes the times of events, but the labels of {title} are times; leave it out"
        return None

    def batch(self, fetch: Fetch, rows: Tensor, *, first_row: int, key: Tensor) -> tuple[Tensor, Labels]:
        """Return the samples `rows`, changed; on a GPU kernels gather and change them at once."""
        samples = self.setup.samples
        if isinstance(samples, Images):
            return samples.jittered_batch(rows, self.images, key, first_row)
        return samples.jittered_batch(rows, self.events, key, first_row)
