"""The cases of the benchmark: networks, batches and lengths, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bitspike.nn.notation import Conv, Layer, parse

Work = Literal["step", "layer"]


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the benchmark. `work` is a whole training step, or forward and backward of one layer.

    `density` is the share of the input that is not 0. `preset` gives decays, thresholds, dropout, loss and optimizer;
    growth cases take the network from `notation` and the rest from there.
    """

    name: str
    title: str
    preset: str
    notation: str
    input_shape: tuple[int, ...]
    batch: int
    steps: int
    density: float
    repeats: float = 0.0  # of the events' bins, the share with another event; of those the same share with a third ...
    static: bool = False
    work: Work = "step"
    group: str = ""  # cases that are drawn as one curve
    along: Literal["", "T", "width", "batch"] = ""  # what grows in a group

    def layers(self) -> tuple[Layer, ...]:
        """Return the network's layers; padding and strides are refused, as peers are built without them."""
        layers = parse(self.notation, self.input_shape)[0]
        convolutions = [layer for layer in layers if isinstance(layer, Conv)]
        if any(conv.padding or conv.stride > 1 or any(pool.stride for pool in conv.pools) for conv in convolutions):
            raise ValueError(f"bench: {self.notation!r} has a padding or a stride, which the peers are built without")
        return layers

    def neurons(self) -> int:
        """Return the number of neurons of all layers together."""
        return sum(neurons_of(layer) for layer in self.layers())

    def neuron_steps(self) -> int:
        """Return neurons times samples times time steps of one training step."""
        return self.neurons() * self.batch * self.steps

    def grown_to(self) -> int:
        """Return the position of this case on the curve of its group: its time steps, width or batch."""
        return {"T": self.steps, "batch": self.batch}.get(self.along, self.neurons())


def neurons_of(layer: Layer) -> int:
    """Return the number of neurons of one layer."""
    if isinstance(layer, Conv):
        channels, height, width = layer.output
        return channels * height * width
    return layer.outputs


_FASHION = Case(
    "fashion",
    "FashionMNIST, static images",
    "fashion/annealed",
    "16Conv5-AP2-64Conv5-AP2-1024Dense10",
    (1, 28, 28),
    batch=128,
    steps=100,
    density=0.5,
    static=True,
)
_DVS = Case(
    "dvs128",
    "DVS128 Gesture",
    "dvs128/annealed",
    "16Conv5-AP2-32Conv5-AP2-800Dense11",
    (2, 32, 32),
    batch=8,
    steps=100,
    density=0.05,
    repeats=1 / 3,
)
_SHD = Case(
    "shd", "SHD", "shd/annealed", "700Dense3000Dense20", (700,), batch=32, steps=333, density=0.0244, repeats=0.006
)
_LAYER = Case(
    "layer16k",
    "Open Neuromorphic's single layer",
    "shd/annealed",
    "16384Dense16384",
    (16384,),
    batch=16,
    steps=500,
    density=0.1,
    work="layer",
)
_ALL = (
    _FASHION,
    _DVS,
    replace(_DVS, name="dvs128-16", batch=16),
    _SHD,
    _LAYER,
    replace(
        _LAYER, name="layer2k", title="a single layer of 2,048 neurons", notation="2048Dense2048", input_shape=(2048,)
    ),
)
CASES = {case.name: case for case in _ALL}
GROWTH = "growth"
# A layer of 16,384 neurons is a GPU's work: a CPU takes minutes for one step of it.
ON_GPU = ("fashion", "dvs128", "dvs128-16", "shd", "layer16k")
ON_CPU = ("fashion", "dvs128", "shd", "layer2k")


def _grown(base: Case, group: str, along: Literal["T", "width", "batch"], size: int, notation: str = "") -> Case:
    steps, batch = (size if along == "T" else 100), (size if along == "batch" else base.batch)
    return replace(
        base,
        name=f"{group}-{along}{size}",
        title=f"{group}, {along} {size}",
        notation=notation or base.notation,
        steps=steps,
        batch=batch,
        group=f"{group}, {along}",
        along=along,
    )


def growth() -> tuple[Case, ...]:
    """Return cases in which a dense or convolutional network grows in time steps, width or batch; all else is equal."""
    dense = replace(_SHD, notation="700Dense1000Dense20")
    times, batches = (50, 100, 200, 400, 800, 1600, 3200), (8, 32, 128, 512)
    return (
        *(_grown(dense, "dense", "T", steps) for steps in times),
        *(_grown(dense, "dense", "width", w, f"700Dense{w}Dense20") for w in (500, 1000, 2000, 4000, 8000)),
        *(_grown(dense, "dense", "batch", batch) for batch in batches),
        *(_grown(_DVS, "conv", "T", steps) for steps in times),
        *(_grown(_DVS, "conv", "width", f, f"{f}Conv5-AP2-{2 * f}Conv5-AP2-{50 * f}Dense11") for f in (8, 16, 32, 64)),
        *(_grown(_DVS, "conv", "batch", batch) for batch in batches),
    )


def select_cases(names: Sequence[str], device: str) -> list[Case]:
    """Return the cases of these names, by default those that suit the device; "growth" names all of its cases."""
    known = {**CASES, **{case.name: case for case in growth()}}
    chosen: list[Case] = []
    for name in names or (ON_GPU if device == "cuda" else ON_CPU):
        if name == GROWTH:
            chosen.extend(growth())
        elif name in known:
            chosen.append(known[name])
        else:
            raise ValueError(f"bench: no case is named {name!r}; known: {', '.join(CASES)}, {GROWTH} and its parts")
    return list(dict.fromkeys(chosen))
