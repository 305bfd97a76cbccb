"""What spikes pass before a synapse, as values: dropout, then for each neuron a delay and a gain."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bitspike.ops.dropout.reference import dropped_below


@dataclass(frozen=True, slots=True)
class SpikeFilter:
    """The filter before a synapse: dropout, then for each neuron a delay and a gain.

    Delays are soft, or rounded if `width` is None. Gains are rounded to whole numbers in 0..largest_gain.
    """

    delays: Tensor | None = None
    longest: int = 0
    width: Tensor | None = None
    dropout: float = 0.0
    key: Tensor | None = None
    layer: int = 0
    first_row: int = 0  # of the whole batch, if it lies in several processes: masks are drawn for its rows
    gains: Tensor | None = None
    largest_gain: int = 0

    @property
    def taps(self) -> int:
        """The number of taps: 1 without a delay."""
        return 1 if self.delays is None else self.longest + 1

    @property
    def soft(self) -> bool:
        """Whether outputs are weighted sums."""
        return self.taps > 1 and self.width is not None

    @property
    def scale(self) -> float:
        """What dropout multiplies by where it keeps."""
        return 1 / (1 - self.dropout)

    @property
    def halves(self) -> int:
        """How many numbers a row has for each output: 2 where one of 11 bits may round, the value and its rest."""
        return 2 if self.soft or self.dropout > 0 or self.gains is not None else 1

    def whole_delays(self) -> Tensor:
        """Return the delays in whole steps `[N]` int32, as the definition rounds them."""
        if self.delays is None:
            raise ValueError("whole_delays: the filter has no delays")
        return self.delays.detach().clamp(0, self.longest).round().int()

    def dropout_arguments(self) -> dict[str, float | int]:
        """Return the kernels' arguments for dropout."""
        return {"below": dropped_below(self.dropout), "keep": self.scale}

    def constants(self) -> dict[str, float | int]:
        """Return the arguments, but tensors, of the kernels that filter whole tensors."""
        drop = {"DROP": self.dropout > 0, "LAYER": self.layer, "first_row": self.first_row, **self.dropout_arguments()}
        return {**drop, "TAPS": self.taps, "GAINS": self.largest_gain}

    def tensors(self) -> tuple[Tensor | None, ...]:
        """Return the delays, their width, the key of the dropout and the gains."""
        return self.delays, self.width, self.key, self.gains

    def sums(self, *, of_delays: bool, of_gains: bool) -> int:
        """Return how many sums over time a backward kernel makes for the gradients that are wanted."""
        return 2 if of_delays and self.soft else 1 if of_gains and self.gains is not None else 0
