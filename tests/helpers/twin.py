"""Networks in the page's JavaScript, next to PyTorch and to the NumPy definition."""

from dataclasses import dataclass

import numpy as np
import torch

from bitspike.deploy import plain_engine
from bitspike.deploy.describe import describe
from bitspike.deploy.page.payload import payload
from helpers import node
from helpers.random_networks import random_input, random_network

ENGINE = ("layer.js", "run.js")

RUN_ALL = """(job) => job.map(({ network, values, steps, sequence }) => {
  const result = runAll(network, { values: toFloats(values), steps, sequence });
  const text = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
  return { spikes: result.spikes.map(text), membrane: text(result.membrane), scores: text(result.scores) };
})"""


@dataclass
class Case:
    """A network with an input of one sample, and what should come out: one array a layer, `[T, neurons]`."""

    job: dict
    spikes: list[np.ndarray]
    membrane: np.ndarray  # of the last layer
    scores: np.ndarray


def case(net, x: torch.Tensor, *, by: str) -> Case:
    """Return the case of a network and an input of a batch of one; `by` is "torch" or "numpy"."""
    model = describe(net)
    sequence = x.dim() == len(net.input_shape) + 2
    steps = len(x) if sequence else net.steps
    if by == "torch":
        with torch.no_grad():
            outputs = net.run(x)
            scores = net.output_scores(outputs[-1]).numpy()
        parts = [(out.spikes.numpy(), out.membrane.numpy()) for out in outputs]
    else:
        outputs = plain_engine.run(model, x.numpy(), None if sequence else steps)
        last = [part.reshape(steps, 1, -1) for part in outputs[-1]]
        scores = plain_engine.scores(model, *last)
        parts = [(out.spikes, out.membrane) for out in outputs]
    job = {"network": payload(model, "a test"), "values": node.floats(x.numpy()), "steps": steps, "sequence": sequence}
    spikes = [spikes.reshape(steps, -1) for spikes, _ in parts]
    return Case(job, spikes, parts[-1][1].reshape(steps, -1), scores.ravel())


def random_cases(seeds, *, by: str) -> list[Case]:
    cases = []
    for seed in seeds:
        net = random_network(seed)
        cases.append(case(net, random_input(net, seed, batch=1, steps=9), by=by))
    return cases


def differing(cases: list[Case], code: str | None = None) -> list[int]:
    """Return which cases differ in a spike, in a membrane or in a score when JavaScript runs them."""
    results = node.call(node.source(*ENGINE) if code is None else code, RUN_ALL, [case.job for case in cases])
    return [i for i, (case, result) in enumerate(zip(cases, results, strict=True)) if not _equal(case, result)]


def _equal(case: Case, result: dict) -> bool:
    spikes = all(
        np.array_equal(node.from_bytes(text), expected.ravel())
        for text, expected in zip(result["spikes"], case.spikes, strict=True)
    )
    membrane = np.array_equal(node.from_floats(result["membrane"]), case.membrane.ravel())
    return spikes and membrane and np.array_equal(node.from_floats(result["scores"]), case.scores)
