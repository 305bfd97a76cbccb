"""The peer snnTorch: the loop over time as the paper's released code writes it.

At every step and in every layer: binarised convolution or product, average pool, batch norm, dropout on the current,
`snn.Leaky`; spikes and membranes of the last layer are kept in lists. The loss is snnTorch's own. Static images go
through the first layer at every step, as there.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitspike.bench.contender import Contender, waiter
from bitspike.bench.peers import Variant, library
from bitspike.bench.peers.torch_parts import AfterBackward, pool_of, synapse, thresholds
from bitspike.bench.problem import Problem
from bitspike.nn.notation import Conv, Layer

DIFFERS = ("fires where u > theta, we where u >= theta", "the surrogate moves with theta, ours stays at theta_0")


class Loop(nn.Module):
    """Layers in a row; all of them are called once in each time step."""

    def __init__(self, problem: Problem) -> None:
        snntorch = library("snntorch")
        super().__init__()
        recipe, single = problem.recipe, problem.case.work == "layer"
        layers = problem.case.layers()
        self.synapses = nn.ModuleList(synapse(layer, binary=not single) for layer in layers)
        self.norms = nn.ModuleList(_norm(layer, recipe.norm) for layer in layers)
        self.drops = nn.ModuleList(nn.Dropout(p) if p else nn.Identity() for p in recipe.dropouts)
        self.pools = [pool_of(layer) for layer in layers]
        self.neurons = nn.ModuleList(
            snntorch.Leaky(
                beta=beta,
                threshold=torch.tensor(theta),
                spike_grad=snntorch.surrogate.fast_sigmoid(slope=slope),
            )
            for beta, slope, theta in zip(recipe.betas, recipe.slopes, thresholds(problem), strict=True)
        )

    def forward(self, x: Tensor, steps: int, static: bool) -> tuple[Tensor, Tensor]:
        """Return spikes and membranes of the last layer, `[T, B, classes]`."""
        neurons: list[Any] = list(self.neurons)
        membranes = [each.init_leaky() for each in neurons]
        spikes, kept = [], []
        for t in range(steps):
            z = x if static else x[t]
            for i, synapse_ in enumerate(self.synapses):
                convolution = isinstance(synapse_, nn.Conv2d)
                current = synapse_(z if convolution else z.flatten(1))
                if convolution:
                    current = self.norms[i](F.avg_pool2d(current, self.pools[i]))
                z, membranes[i] = neurons[i](self.drops[i](current), membranes[i])
            spikes.append(z)
            kept.append(membranes[-1])
        return torch.stack(spikes), torch.stack(kept)

    @torch.no_grad()
    def anneal(self, layer: int, theta: float) -> None:
        """Set the threshold of a layer in place, as the released code does."""
        neurons: Any = self.neurons[layer]
        neurons.threshold.fill_(theta)


def _norm(layer: Layer, wanted: bool) -> nn.Module:
    return nn.BatchNorm2d(layer.filters) if wanted and isinstance(layer, Conv) else nn.Identity()


def make(problem: Problem) -> Contender:
    """Return the loop with its optimizer."""
    snntorch, functional = library("snntorch"), library("snntorch.functional")
    snntorch.SpikingNeuron.init()  # it keeps every neuron layer ever made
    net = Loop(problem).to(problem.device)
    net.train()
    after = AfterBackward(problem, list(net.parameters()), net.anneal)
    loss_of = functional.mse_count_loss(correct_rate=0.8, incorrect_rate=0.2)
    x, case = problem.floats(), problem.case

    def step() -> Tensor:
        spikes, _ = net(x, case.steps, case.static)
        loss: Tensor = spikes.sum() if case.work == "layer" else loss_of(spikes, problem.labels)
        after.clear()
        loss.backward()
        after()
        return loss

    return Contender(
        name="snntorch",
        library="snntorch",
        version=snntorch.__version__,
        setting="loop over time, float32",
        differs=DIFFERS,
        step=step,
        wait=waiter(problem.device),
    )


VARIANTS = (Variant("snntorch", make),)
