"""The peer Norse, compiled: synapses over all time at once, its LIFBoxCell and batch norm in compiled time steps.

The time to compile grows with the steps that are unrolled, so a stretch of about ten is compiled once a layer and
called T/10 times, which leaves a tenth of the launches and lets Inductor fuse the steps of a stretch.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.bench.contender import Arithmetic, Contender, waiter
from bitspike.bench.peers import Variant, library
from bitspike.bench.peers.torch_parts import folded, pool_of, synapse, thresholds, training_step
from bitspike.bench.problem import Problem
from bitspike.nn.notation import Conv

STRETCH = 10
DIFFERS = (
    "v = beta*v + (1 - beta)*I, so thresholds are (1 - beta)*theta; the reset decays with the membrane",
    "the reset carries a gradient",
    "surrogate 1/(1 + |v - theta|)^2 without a slope",
)


class Network(nn.Module):
    """A network with a synapse and a LIFBoxCell in each layer."""

    def __init__(self, problem: Problem) -> None:
        norse, reset = library("norse.torch"), library("norse.torch.functional.reset")
        super().__init__()
        recipe, case = problem.recipe, problem.case
        layers = case.layers()
        self.case, self.betas = case, recipe.betas
        self.synapses = nn.ModuleList(synapse(layer, binary=case.work != "layer") for layer in layers)
        self.pools = [pool_of(layer) for layer in layers]
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(layer.filters) if recipe.norm and isinstance(layer, Conv) else nn.Identity()
            for layer in layers
        )
        self.drops = nn.ModuleList(nn.Dropout(p) if p else nn.Identity() for p in recipe.dropouts)

        def number(value: float) -> Tensor:
            return torch.tensor(value, device=problem.device)

        self.v_th = [number((1 - b) * theta) for b, theta in zip(recipe.betas, thresholds(problem), strict=True)]
        self.cells = nn.ModuleList(
            norse.LIFBoxCell(
                norse.LIFBoxParameters(
                    tau_mem_inv=number(1 - beta),
                    v_leak=number(0.0),
                    v_th=v_th,
                    v_reset=number(0.0),
                    method="super",
                    alpha=number(100.0),
                    reset_method=reset.reset_subtract,
                ),
                dt=1.0,
            )
            for beta, v_th in zip(recipe.betas, self.v_th, strict=True)
        )
        stretch = max(n for n in range(1, min(STRETCH, case.steps) + 1) if case.steps % n == 0)
        self.stretch = stretch
        self.compiled = [_compiled(norm, cell) for norm, cell in zip(self.norms, self.cells, strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for `x [T, B, ...]`, or for one image `[B, ...]` that is shown for all T."""
        if self.case.static:
            x = x.expand(self.case.steps, *x.shape)
        for i, scan in enumerate(self.compiled):
            current = self.drops[i](self.current(i, x))
            v = torch.zeros_like(current[0]).requires_grad_()  # as the later ones: one compilation serves all
            out = []
            for steps in current.split(self.stretch):
                spikes, v = scan(steps, v)
                out.append(spikes)
            x = torch.cat(out)
        return x

    def current(self, i: int, x: Tensor) -> Tensor:
        """Return the current of one layer before batch norm; time steps are folded into the batch."""
        return folded(self.synapses[i], self.pools[i], x)

    @torch.no_grad()
    def anneal(self, layer: int, theta: float) -> None:
        """Set the threshold of a layer in place, so that nothing is compiled again."""
        self.v_th[layer].fill_((1 - self.betas[layer]) * theta)


def _compiled(norm: nn.Module, cell: nn.Module) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    state_of = library("norse.torch.functional.lif_box").LIFBoxFeedForwardState

    def scan(current: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        state: Any = state_of(v)
        out = []
        for step in current.unbind():
            spikes, state = cell(norm(step), state)
            out.append(spikes)
        return torch.stack(out), state.v

    compiled: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = torch.compile(scan, dynamic=False)
    return compiled


def make(problem: Problem) -> Contender:
    """Return the network with its optimizer; it is compiled in the first step."""
    import torch._dynamo

    # All layers of all cases share one function, each a compilation of its own.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 256)
    net = Network(problem).to(problem.device)
    x = problem.floats()

    def forward() -> Tensor:
        spikes: Tensor = net(x)
        return spikes

    return Contender(
        name="norse",
        library="norse",
        version=version("norse"),
        setting=f"torch.compile of {net.stretch} steps at a time, synapses over all time, TF32",
        differs=DIFFERS,
        step=training_step(problem, net, forward, net.anneal),
        wait=waiter(problem.device),
        arithmetic=Arithmetic(matmul_tf32=True),
    )


VARIANTS = (Variant("norse", make),)
