"""The training step of bitspike itself, as in `bitspike train`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from bitspike import __version__
from bitspike.bench.contender import Arithmetic, Contender, waiter
from bitspike.bench.problem import Problem, synthetic, synthetic_labels
from bitspike.data.samples import Images, Samples, frames_from_dense
from bitspike.experiments.assembly import build_network, make_task
from bitspike.nn import build
from bitspike.train.loop import Trainer
from bitspike.train.run_folder import RunFolder

# The synthetic set: batches are gathered from it on the device, as in training, in epochs as long as FashionMNIST's.
_BATCHES, _PASSES = 4, 100
# as `bitspike train` sets it
_EXACT = Arithmetic(matmul_tf32=False, conv_tf32=False, deterministic=True)


def ours(problem: Problem) -> Contender:
    """Return our contender: a step of the Trainer, or forward and backward of one layer."""
    layer = problem.case.work == "layer"
    steps = None if layer else _trainer(problem)
    return Contender(
        name="bitspike",
        library="bitspike",
        version=__version__,
        setting="net(x), backward" if layer else "Trainer.step, batches gathered on the device",
        differs=("weights are -1/+1; the peers' are real, as in the published benchmark",) if layer else (),
        step=steps or _layer(problem),
        wait=waiter(problem.device),
        state=steps.graph if steps else None,
        arithmetic=_EXACT,
    )


def _layer(problem: Problem) -> Callable[[], object]:
    recipe, case = problem.recipe, problem.case
    with torch.device(problem.device):  # drawn there: a CPU takes seconds for 16,384 x 16,384
        net = build(
            case.notation,
            case.input_shape,
            beta=list(recipe.betas),
            slope=list(recipe.slopes),
            theta=[schedule(0) for schedule in recipe.schedules],
            steps=case.steps,
        )
    net.train()

    def step() -> object:
        for parameter in net.parameters():
            parameter.grad = None
        loss = net(problem.x).spikes.sum()
        loss.backward()
        return loss

    return step


def samples_of(problem: Problem) -> Samples:
    """Return a few batches of samples like the problem's, on its device."""
    case = problem.case
    count = case.batch * (1 if case.group else _BATCHES)  # growth goes to sizes of which one batch is enough
    values = synthetic(case, count, 2, problem.device)
    labels = synthetic_labels(case, count, 2, problem.device)
    return Images(values, labels) if case.static else frames_from_dense(values, labels)


def _trainer(problem: Problem) -> Steps:
    spec, samples = problem.experiment, samples_of(problem)
    net = build_network(spec, problem.case.input_shape)
    trainer = Trainer(
        net,
        spec.net.schedules(len(net.layers)),
        make_task(spec, net),
        samples,
        samples,
        spec.train,
        RunFolder(Path(tempfile.gettempdir()) / "bitspike-bench"),  # named only: a step writes nothing
        seed=0,
        repeat=_PASSES,
    )
    return Steps(trainer)


class Steps:
    """An endless series of a trainer's steps: after an epoch the next one begins."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.begun = False

    def __call__(self) -> object:
        trainer = self.trainer
        if not self.begun or trainer.progress.iteration >= trainer.work.count:
            trainer.begin_epoch()
            self.begun = True
        trainer.step()
        return trainer.observed

    def graph(self) -> str:
        """Return words that say whether steps are now replayed from a CUDA graph."""
        return "CUDA graph" if self.trainer.graph is True else f"no CUDA graph: {self.trainer.graph}"
