"""A network's answers to samples, with the confidence of each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bitspike.data.progress import Progress, silent
from bitspike.experiments.predicting.files import Given
from bitspike.experiments.predicting.networks import Answers, Network, batch_of
from bitspike.experiments.predicting.trained_on import TrainedOn


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The answer to one sample: the `confidence` of each class, and the number of `spikes` of each layer.

    The confidence is the softmax of the network's scores, scaled as in training with cross entropy. `label` is None if
    all scores are the same. `expected` is the class that the file says, None if it says none. `missed` is the share of
    events that come too late for the network's steps. `layers` have the spikes `[T, ...]`, where they were asked for.
    """

    name: str
    label: int | None
    confidence: dict[str, float]
    missed: float
    spikes: dict[str, int]
    expected: int | None = None
    layers: dict[str, Tensor] = field(default_factory=dict)
    membrane: Tensor | None = None  # of the output

    @property
    def answer(self) -> str:
        """The class in words."""
        return "no answer" if self.label is None else list(self.confidence)[self.label]

    @property
    def expected_name(self) -> str | None:
        """The class that the file says, in words."""
        return None if self.expected is None else list(self.confidence)[self.expected]


def predict(network: Network, given: Given, *, keep: bool = False, progress: Progress = silent) -> list[Prediction]:
    """Return what the network says of each sample; `keep` keeps every spike of the layers, for figures."""
    size = batch_of(network, given.samples.steps)
    tick = progress("samples", -(-len(given.names) // size))
    found: list[Prediction] = []
    for rows in torch.arange(len(given.names)).split(size):
        answers = network.answers(given.samples.batch(rows)[0].float())
        found += [_prediction(network.trained_on, given, answers, int(rows[0]), i, keep) for i in range(len(rows))]
        tick()
    return found


def _prediction(trained_on: TrainedOn, given: Given, answers: Answers, first: int, i: int, keep: bool) -> Prediction:
    scores = answers.scores[i].float()
    label = None if bool((scores == scores[0]).all()) else int(scores.argmax())
    sure = (trained_on.logit_scale * scores).softmax(0)  # as cross entropy trains it
    return Prediction(
        given.names[first + i],
        label,
        dict(zip(trained_on.class_names, sure.tolist(), strict=True)),
        given.missed[first + i],
        {name: int(spikes[:, i].sum()) for name, spikes in answers.layers.items()},
        given.expected[first + i],
        {name: spikes[:, i] for name, spikes in answers.layers.items()} if keep else {},
        answers.membrane[:, i] if keep else None,
    )


def accuracy(found: Sequence[Prediction]) -> tuple[float, int] | None:
    """Return the share of right answers and of how many samples; None if no file says the classes of its samples."""
    known = [each for each in found if each.expected is not None]
    return (sum(each.label == each.expected for each in known) / len(known), len(known)) if known else None
