"""The base class of training tricks: the training loop calls its hooks, and each does nothing unless overridden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.train.config import TrainConfig
from bitspike.train.labels import Labels

Fetch = Callable[[Tensor], tuple[Tensor, Labels]]  # from rows `[B]` to their inputs and labels


@dataclass(frozen=True, slots=True)
class Setup:
    """What a trick is made from: the network, its training samples, the settings and what the run's size is."""

    net: SpikingNetwork
    samples: Samples
    config: TrainConfig
    seed: int
    iterations: int  # of all epochs
    processes: int = 1  # that share a batch


class Trick:
    """A change to plain training: one file, and one entry in `TRICKS`.

    `batch`, `on_gradients` and `after_update` run within an iteration, which a CUDA graph may record and replay.
    They must leave every tensor that they keep in its place, and nothing in them may wait for the device.
    """

    name: ClassVar[str]  # under which a checkpoint keeps its state
    fields: ClassVar[tuple[str, ...]] = ()  # of [train]: any of them that is not none, 0 or false asks for the trick
    for_delays: ClassVar[bool] = False  # every network with delays asks for it, by net.delays
    lasts_all_epochs: ClassVar[bool] = False  # it is stretched over all epochs: other epochs are another experiment

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    # Before the run

    @classmethod
    def asked_by(cls, config: TrainConfig) -> str:
        """Return the name of the setting that asks for the trick; an empty string if none does."""
        return next((f"train.{field}" for field in cls.fields if getattr(config, field)), "")

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return one line that says why the trick does not fit the network or the samples of `title`."""
        return None

    # What changes with the iteration

    def tensors(self) -> Sequence[Tensor]:
        """Return the 0-d tensors on the device that get a new number before each iteration."""
        return ()

    def values(self, step: int) -> Sequence[float]:
        """Return the numbers of `tensors()` for the run's iteration `step`; the first is 0."""
        return ()

    # Within an iteration

    def batch(self, fetch: Fetch, rows: Tensor, *, first_row: int, key: Tensor) -> tuple[Tensor, Labels]:
        """Return inputs and labels of the samples `rows [B]`; `fetch(rows)` gives them without this trick.

        `key` (one int64) changes in every iteration. Draw from it and from a sample's place in the whole batch:
        `first_row` is that of the first, as several processes share a batch.
        """
        return fetch(rows)

    def on_gradients(self, norms: Tensor) -> None:
        """Change gradients or weights before the optimizer's step; `norms [P]` are the gradients' norms."""

    def after_update(self) -> None:
        """Act after the optimizer's step."""

    # Evaluations

    def as_judged(self, step: int) -> AbstractContextManager[object]:
        """Return a context in which the network is as evaluations see it, and as the best is saved."""
        return nullcontext()

    def before_evaluation(self) -> None:
        """Act before each evaluation, within `as_judged`."""

    # Checkpoints

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint must hold; a run that goes on copies the saved numbers into them."""
        return {}
