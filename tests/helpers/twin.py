"""Networks in the page's JavaScript, next to PyTorch and to the NumPy definition."""

from dataclasses import dataclass

import numpy as np
import torch

from bitspike.deploy.describe import describe
from bitspike.deploy.model import NetworkModel
from bitspike.deploy.page.payload import network_payload
from bitspike.deploy.runtime import plain_engine
from helpers import node
from helpers.random_networks import random_input, random_network

ENGINE = ("layer.js", "run.js")

RUN_ALL = """(job) => job.map(({ network, values, steps, sequence }) => {
  const result = runAll(network, { values: toFloats(values), steps, sequence });
  const text = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
  return { spikes: result.spikes.map(text), membrane: text(result.membrane), scores: text(result.scores) };
})"""


FINGERPRINTS = """({ codes, jobs }) => codes.map((code) => {
  const runJobs = new Function(`${code}; return ${jobs.run}`)();
  try {
    return require("crypto").createHash("sha256").update(JSON.stringify(runJobs(jobs.all))).digest("hex");
  } catch (error) {
    return String(error);
  }
})"""


@dataclass
class Case:
    """A network with an input of one sample, and what should come out: one array a layer, `[T, neurons]`."""

    job: dict
    spikes: list[np.ndarray]
    membrane: np.ndarray  # of the last layer
    scores: np.ndarray


def torch_case(net, x: torch.Tensor) -> Case:
    """Return the case of a network and an input of a batch of one, as PyTorch runs it."""
    with torch.no_grad():
        outputs = net.run(x)
        scores = net.output_scores(outputs[-1])
    return _case(
        describe(net), x.numpy(), [(out.spikes.numpy(), out.membrane.numpy()) for out in outputs], scores.numpy()
    )


def numpy_case(model: NetworkModel, x: torch.Tensor) -> Case:
    """Return the case of a model and an input of a batch of one, as the NumPy definition runs it."""
    sequence = x.dim() == len(model.input_shape) + 2
    outputs = plain_engine.run(model, x.numpy(), None if sequence else model.steps)
    last = [part.reshape(len(part), 1, -1) for part in outputs[-1]]
    return _case(model, x.numpy(), outputs, plain_engine.scores(model, *last))


def _case(model: NetworkModel, x: np.ndarray, outputs, scores: np.ndarray) -> Case:
    steps, sequence = len(outputs[0][0]), x.ndim == len(model.input_shape) + 2
    job = {"network": network_payload(model), "values": node.floats(x), "steps": steps, "sequence": sequence}
    spikes = [spikes.reshape(steps, -1) for spikes, _ in outputs]
    return Case(job, spikes, outputs[-1][1].reshape(steps, -1), scores.ravel())


def random_cases(seeds, *, by: str) -> list[Case]:
    """Return cases of random networks; `by` is "torch" or "numpy"."""
    cases = []
    for seed in seeds:
        net = random_network(seed)
        x = random_input(net, seed, batch=1, steps=9)
        cases.append(torch_case(net, x) if by == "torch" else numpy_case(describe(net), x))
    return cases


def fingerprints(cases: list[Case], codes: list[str]) -> list[str]:
    """Return one checksum for each version of the code: of all that it gives for all cases."""
    jobs = {"run": RUN_ALL, "all": [case.job for case in cases]}
    return node.call("", FINGERPRINTS, {"codes": codes, "jobs": jobs})


def differing(cases: list[Case]) -> list[int]:
    """Return which cases differ in a spike, in a membrane or in a score when JavaScript runs them."""
    results = node.call(node.source(*ENGINE), RUN_ALL, [case.job for case in cases])
    return [i for i, (case, result) in enumerate(zip(cases, results, strict=True)) if not _equal(case, result)]


def _equal(case: Case, result: dict) -> bool:
    spikes = all(
        np.array_equal(node.from_bytes(text), expected.ravel())
        for text, expected in zip(result["spikes"], case.spikes, strict=True)
    )
    membrane = np.array_equal(node.from_floats(result["membrane"]), case.membrane.ravel())
    return spikes and membrane and np.array_equal(node.from_floats(result["scores"]), case.scores)
