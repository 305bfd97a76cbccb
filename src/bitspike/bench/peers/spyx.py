"""The peer Spyx, on JAX: one jit-compiled function is the whole training step.

Synapses run over all time at once, batch norm takes each step's own statistics, `spyx.nn.LIF` is scanned over time,
ten steps unrolled at a time. Optimizer, clips and learning rate are optax's, thresholds arguments of the function.
Float32 products take XLA's default precision, TF32 on recent GPUs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from bitspike.bench.contender import Contender
from bitspike.bench.peers import Variant, library
from bitspike.bench.peers.torch_parts import pool_of, thresholds
from bitspike.bench.problem import Problem, Recipe
from bitspike.nn.notation import Conv, Layer

UNROLL = 10
DIFFERS = (
    "a spike leaves one step after its membrane crossed theta; fires where u > theta",
    "the reset carries a gradient; the surrogate moves with theta",
    "batch norm keeps no running averages",
)


def make(problem: Problem) -> Contender:
    """Return the network with its optimizer, compiled before the first step."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # it would take most of the GPU from PyTorch
    import numpy as np

    jax, jnp = library("jax"), library("jax.numpy")
    layers = problem.case.layers()
    single = problem.case.work == "layer"
    keys = jax.random.split(jax.random.PRNGKey(0), len(layers) + 1)
    params = [_initial(layer, key, problem.recipe.norm) for layer, key in zip(layers, keys[1:], strict=True)]
    x = jnp.asarray(problem.floats().cpu().numpy())
    labels = jnp.asarray(problem.labels.cpu().numpy())
    loss_of = _loss(problem)
    schedules = problem.recipe.schedules

    def thetas(step: int) -> Any:
        values = thresholds(problem) if single else [schedule(step) for schedule in schedules]
        return np.asarray(values, np.float32)

    if single:
        gradient = jax.jit(jax.value_and_grad(loss_of)).lower(params, keys[0], thetas(0), x, labels).compile()
        state: list[Any] = [0, None]

        def step() -> object:
            state[1] = gradient(params, keys[0], thetas(0), x, labels)
            return state[1][0]

        compiled = gradient
    else:
        optimizer = _optimizer(problem.recipe)

        def whole(params: Any, moments: Any, key: Any, theta: Any, x: Any, labels: Any) -> Any:
            key, drop = jax.random.split(key)
            loss, grads = jax.value_and_grad(loss_of)(params, drop, theta, x, labels)
            if (bound := problem.recipe.weight_clip) is not None:
                params = jax.tree.map(lambda p: jnp.clip(p, -bound, bound), params)
            updates, moments = optimizer.update(grads, moments, params)
            return jax.tree.map(jnp.add, params, updates), moments, key, loss

        moments = optimizer.init(params)
        arguments = (params, moments, keys[0], thetas(0), x, labels)
        compiled = jax.jit(whole, donate_argnums=(0, 1)).lower(*arguments).compile()
        state = [0, (params, moments, keys[0], None)]

        def step() -> object:
            state[1] = compiled(*state[1][:3], thetas(state[0]), x, labels)
            state[0] += 1
            return state[1][3]

    return Contender(
        name="spyx",
        library="spyx",
        version=f"{version('spyx')} (jax {jax.__version__})",
        setting=f"jit of the whole step on {jax.devices()[0].platform}, {UNROLL} steps unrolled",
        differs=DIFFERS,
        step=step,
        wait=lambda: jax.block_until_ready(state[1]),
        peak_bytes=lambda: _memory(compiled),
    )


def _initial(layer: Layer, key: Any, norm: bool) -> dict[str, Any]:
    jax, jnp = library("jax"), library("jax.numpy")
    if isinstance(layer, Conv):
        shape: tuple[int, ...] = (layer.filters, layer.inputs, layer.kernel, layer.kernel)
    else:
        shape = (layer.inputs, layer.outputs)
    inputs = layer.inputs * (layer.kernel**2 if isinstance(layer, Conv) else 1)
    made = {"weight": jax.random.uniform(key, shape, minval=-(inputs**-0.5), maxval=inputs**-0.5)}
    if not isinstance(layer, Conv):
        made["bias"] = jnp.zeros(layer.outputs)
    elif norm:
        made |= {"scale": jnp.ones(layer.filters), "shift": jnp.zeros(layer.filters)}
    return made


def _loss(problem: Problem) -> Callable[..., Any]:
    """Return the loss as a function of parameters, key, thresholds, batch and labels."""
    jax, jnp, lax = library("jax"), library("jax.numpy"), library("jax.lax")
    case, recipe = problem.case, problem.recipe
    layers = case.layers()
    single = case.work == "layer"

    def sign(w: Any) -> Any:
        return w + lax.stop_gradient(jnp.where(w >= 0, 1.0, -1.0) - w)

    def current(i: int, layer: Layer, params: dict[str, Any], z: Any) -> Any:
        weight = params["weight"] if single else sign(params["weight"])
        if not isinstance(layer, Conv):
            return z.reshape(*z.shape[:2], -1) @ weight + params["bias"]
        flat = lax.conv_general_dilated(z.reshape(-1, *z.shape[2:]), weight, (1, 1), "VALID")
        size = (1, 1, pool_of(layer), pool_of(layer))
        flat = lax.reduce_window(flat, 0.0, lax.add, size, size, "VALID") / math.prod(size)
        folded = flat.reshape(*z.shape[:2], *flat.shape[1:])
        if "scale" not in params:
            return folded
        mean, variance = (f(folded, axis=(1, 3, 4), keepdims=True) for f in (jnp.mean, jnp.var))
        scale, shift = (params[name][:, None, None] for name in ("scale", "shift"))
        return (folded - mean) * lax.rsqrt(variance + 1e-5) * scale + shift

    def loss(params: Sequence[dict[str, Any]], key: Any, theta: Any, x: Any, labels: Any) -> Any:
        z = x[None] if case.static else x
        for i, layer in enumerate(layers):
            into = current(i, layer, params[i], z)
            if case.static and i == 0:  # computed once; XLA would not find that out
                into = jnp.broadcast_to(into, (case.steps, *into.shape[1:]))
            if (p := recipe.dropouts[i]) > 0:
                key, drop = jax.random.split(key)
                into = jnp.where(jax.random.bernoulli(drop, 1 - p, into.shape), into / (1 - p), 0)
            z = _scan(into, recipe.betas[i], recipe.slopes[i], theta[i])
        if single:
            return z.sum()
        steps, classes = z.shape[0], z.shape[2]
        on, off = int(0.8 * steps), int(0.2 * steps)
        target = jax.nn.one_hot(labels, classes) * (on - off) + off
        return jnp.mean((z.sum(0) - target) ** 2) / steps

    return loss


def _scan(current: Any, beta: float, slope: float, theta: Any) -> Any:
    jax, nnx, spyx = library("jax"), library("flax.nnx"), library("spyx")
    cell = spyx.nn.LIF(
        current.shape[2:], beta=beta, threshold=theta, activation=spyx.axn.superspike(slope), rngs=nnx.Rngs(0)
    )

    def advance(v: Any, now: Any) -> Any:
        spikes, v = cell(now, v)
        return v, spikes

    start = cell.initial_state(current.shape[1])
    return jax.lax.scan(advance, start, current, unroll=min(UNROLL, current.shape[0]))[1]


def _optimizer(recipe: Recipe) -> Any:
    jnp, optax = library("jax.numpy"), library("optax")

    def rate(count: Any) -> Any:
        return recipe.lr / 2 * (1 + jnp.cos(jnp.pi * count / recipe.half_period))

    chosen = optax.adam(rate) if recipe.optimizer == "adam" else optax.sgd(rate, momentum=recipe.momentum)
    clip = optax.identity() if recipe.grad_clip is None else optax.clip_by_global_norm(recipe.grad_clip)
    return optax.chain(clip, chosen)


def _memory(compiled: Any) -> int | None:
    """Return the bytes that the compiled step holds, as XLA says: arguments, outputs in new buffers, temporaries."""
    found = compiled.memory_analysis()
    if found is None:
        return None
    kept = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    return int(kept + found.temp_size_in_bytes)


VARIANTS = (Variant("spyx", make),)
