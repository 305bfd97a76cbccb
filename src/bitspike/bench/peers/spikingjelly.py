"""The peer SpikingJelly in multi-step mode: layers over all time at once, with its own fused neuron kernels.

On a GPU its neurons choose their kernels themselves: CUDA ones where they were built (the released wheel has none),
else Triton, else PyTorch. Its best is the fastest of these rows:

- `spikingjelly`: batch norm called once a time step, the mathematics of the paper;
- `-folded`: batch norm over time and batch together, the library's natural way, a different model;
- `-hoisted`: as the first, but the current of a static image computed once, by hand, and expanded over time;
- `-tf32`, `-bf16`: products in TF32, or all synapses under autocast, for everything the library has no say in.

Compiling the whole network is not among them: the threshold is a Python number there, so that each step of annealing
compiles it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.bench.contender import Arithmetic, Contender, waiter
from bitspike.bench.peers import Variant, library
from bitspike.bench.peers.torch_parts import folded, pool_of, synapse, thresholds, training_step
from bitspike.bench.problem import Problem
from bitspike.nn.notation import Conv, Layer

PACKAGE = "spikingjelly.activation_based"
DIFFERS = (
    "the reset decays with the membrane: u = beta*(u - theta*z) + I, ours beta*u + I - theta*z",
    "surrogate SoftSign(k), k/2 times ours, the only one of that shape with a fused kernel; it moves with theta",
)
PLAIN = Arithmetic()
FOLDED = "batch norm over time and batch together: a different model"


class StepNorm(nn.BatchNorm2d):
    """Batch norm of `[T, B, C, H, W]`, which is called once in each time step."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([super(StepNorm, self).forward(step) for step in x.unbind()])


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings in which the rows of SpikingJelly differ."""

    folded: bool = False
    hoisted: bool = False
    arithmetic: Arithmetic = PLAIN


class Network(nn.Module):
    """A network with synapse, pool, batch norm, dropout and LIFNode in each layer, over `[T, B, ...]`."""

    def __init__(self, problem: Problem, setting: Setting) -> None:
        layers_of, neuron, surrogate = (library(f"{PACKAGE}.{part}") for part in ("layer", "neuron", "surrogate"))
        super().__init__()
        recipe, single = problem.recipe, problem.case.work == "layer"
        layers = problem.case.layers()
        self.case, self.hoisted = problem.case, setting.hoisted
        self.synapses = nn.ModuleList(synapse(layer, binary=not single) for layer in layers)
        self.pools = [pool_of(layer) for layer in layers]

        def norm(layer: Layer) -> nn.Module:
            if not (recipe.norm and isinstance(layer, Conv)):
                return nn.Identity()
            if setting.folded:
                folded: nn.Module = layers_of.BatchNorm2d(layer.filters, step_mode="m")
                return folded
            return StepNorm(layer.filters)

        self.norms = nn.ModuleList(norm(layer) for layer in layers)
        self.drops = nn.ModuleList(nn.Dropout(p) if p else nn.Identity() for p in recipe.dropouts)
        self.neurons = nn.ModuleList(
            neuron.LIFNode(
                tau=1 / (1 - beta),
                decay_input=False,
                v_threshold=float(theta),
                v_reset=None,
                surrogate_function=surrogate.SoftSign(alpha=slope),
                detach_reset=True,
                step_mode="m",
            )
            for beta, slope, theta in zip(recipe.betas, recipe.slopes, thresholds(problem), strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for `x [T, B, ...]`, or for one image `[B, ...]` that is shown for all T."""
        case = self.case
        if case.static and not self.hoisted:
            x = x.expand(case.steps, *x.shape)
        for i in range(len(self.synapses)):
            once = case.static and self.hoisted and i == 0
            current = self.current(i, x[None] if once else x)
            if once:
                current = current.expand(case.steps, *current.shape[1:])
            x = self.neurons[i](self.drops[i](current).float())  # its kernels keep membranes in float32 only
        return x

    def current(self, i: int, x: Tensor) -> Tensor:
        """Return the current of one layer; time steps are folded into the batch, as the library's own layers do."""
        current = folded(self.synapses[i], self.pools[i], x)
        if isinstance(self.synapses[i], nn.Linear):
            return current
        normed: Tensor = self.norms[i](current)
        return normed

    def anneal(self, layer: int, theta: float) -> None:
        """Set the threshold of a layer, which is a Python number in this library."""
        node: Any = self.neurons[layer]
        node.v_threshold = theta


def make(problem: Problem, name: str, setting: Setting) -> Contender:
    """Return the network in one setting, with its optimizer."""
    functional = library(f"{PACKAGE}.functional")
    net = Network(problem, setting).to(problem.device)
    x = problem.floats()

    def forward() -> Tensor:
        functional.reset_net(net)
        spikes: Tensor = net(x)
        return spikes

    kernels = functional.neuron_implementation("lif", problem.device)["implementation"]
    arithmetic = setting.arithmetic
    precision = "bf16" if arithmetic.autocast_bf16 else "TF32" if arithmetic.matmul_tf32 else "float32"
    return Contender(
        name=name,
        library="spikingjelly",
        version=version("spikingjelly"),
        setting=f"multi-step, {kernels} kernels, {precision}" + (", layer 1 once" if setting.hoisted else ""),
        differs=_differences(problem, setting),
        step=training_step(problem, net, forward, net.anneal),
        wait=waiter(problem.device),
        arithmetic=arithmetic,
    )


def _differences(problem: Problem, setting: Setting) -> tuple[str, ...]:
    folded = (FOLDED,) if setting.folded and problem.recipe.norm else ()
    rounded = ("currents rounded to bf16: other spikes",) if setting.arithmetic.autocast_bf16 else ()
    averages = ("running averages of layer 1 move once a step, not T times",)
    hoisted = averages if setting.hoisted and problem.recipe.norm else ()
    return (*DIFFERS, *folded, *hoisted, *rounded)


def _on_gpu(problem: Problem) -> bool:
    return problem.device.type == "cuda"


def _with_norm(problem: Problem) -> bool:
    return problem.recipe.norm


def _static(problem: Problem) -> bool:
    return problem.case.static


_TF32 = Arithmetic(matmul_tf32=True)
_BF16 = Arithmetic(matmul_tf32=True, autocast_bf16=True)


def _variant(name: str, setting: Setting, *conditions: object) -> Variant:
    def fits(problem: Problem) -> bool:
        return all(condition(problem) for condition in conditions if callable(condition))

    return Variant(name, partial(make, name=name, setting=setting), fits)


VARIANTS = (
    _variant("spikingjelly", Setting()),
    _variant("spikingjelly-tf32", Setting(arithmetic=_TF32), _on_gpu),
    _variant("spikingjelly-bf16", Setting(arithmetic=_BF16), _on_gpu),
    _variant("spikingjelly-folded", Setting(folded=True, arithmetic=_TF32), _with_norm),
    _variant("spikingjelly-hoisted", Setting(hoisted=True, arithmetic=_TF32), _static),
    _variant("spikingjelly-folded-hoisted", Setting(folded=True, hoisted=True, arithmetic=_TF32), _static, _with_norm),
)
