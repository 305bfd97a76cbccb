"""Our side of benchmarks/released_step.py: `bitspike train {mnist,fashion}/annealed`, one iteration at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.samples import Images
from bitspike.experiments.assembly import build_network, make_task
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import with_values
from bitspike.nn.dropout import set_dropout_key
from bitspike.ops import LIFOutput
from bitspike.train.iteration import Iteration
from bitspike.train.numerics import dtype_of
from bitspike.train.seeds import mixed
from bitspike.train.world import World


class OurTraining:
    """The library's own iteration on a preset, with every layer's spikes and membranes kept to look at."""

    def __init__(self, task: str, samples: Images, *, batch: int, steps: int, precision: str, dropout: bool) -> None:
        settings = [f"net.steps={steps}", f"train.batch={batch}", f"train.precision={precision}"]
        settings += ["net.backend=reference", "net.surrogate_center=current", *([] if dropout else ["net.dropout=0"])]
        self.spec = spec = with_values(preset(f"{task}/annealed"), settings)
        self.net = build_network(spec, samples.shape).to(dtype_of(spec.train.precision))
        for layer in self.net.layers:
            layer.lif.register_forward_pre_hook(_keep_membrane, with_kwargs=True)
        layers = len(self.net.layers)
        self.annealing = ThresholdAnnealing(self.net, spec.net.schedules(layers))
        self.work = Iteration(
            self.net, self.annealing, make_task(spec, self.net), samples, spec.train,
            seed=spec.seed, repeat=1, world=World(), graph=False,
        )  # fmt: skip
        self.work.begin(0, 0, 0)
        self.key = torch.zeros((), dtype=torch.int64)
        set_dropout_key(self.net, self.key)  # also where there is no C library, whose draws these are

    def iteration(self, k: int) -> tuple[float, list[LIFOutput]]:
        """Train on one batch; return its loss, and what every layer did."""
        self.key.fill_(mixed(self.spec.seed, "dropout", k))
        self.work.sums.zero_()
        with self.net.record() as layers:
            self.work.run(k, k)
        self.annealing.passed()
        loss, _, count = self.work.sums.tolist()
        return loss / count, [LIFOutput(out.spikes.detach(), out.membrane.detach(), None) for out in layers.values()]


def _keep_membrane(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, {**options, "keep_membrane": True}
