"""Training of the temporal coding task's cases; the output of every iteration is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import torch
from torch import Tensor

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.coding import STEPS, target_trace
from bitspike.data.progress import Progress, silent
from bitspike.experiments.reproduce.coding.cases import Case
from bitspike.experiments.reproduce.coding.network import SeedBatch
from bitspike.train.losses import trace_errors

MOMENTUM = 0.9  # the appendix' table of the temporal coding task


@dataclass(frozen=True, slots=True)
class History:
    """The record of a case's training: K iterations, T time steps, S seeds."""

    case: Case
    seeds: tuple[int, ...]
    target: Tensor  # [T]
    membrane: Tensor  # of the output neuron, [K, T, S]
    spikes: Tensor  # of the output neuron, [K, T, S]
    loss: Tensor  # [K, S]
    dead: Tensor  # share of hidden neurons without a spike, [K, S]
    theta: Tensor  # [K]


def train_case(
    case: Case, seeds: Sequence[int], iterations: int = 1000, on_iteration: Callable[[], None] = lambda: None
) -> History:
    """Train one network for each seed, and return the record of each iteration before its update."""
    net = SeedBatch(case, seeds)
    target = target_trace(case.theta.final)
    optimizer = torch.optim.SGD(net.parameters(), lr=case.learning_rate, momentum=MOMENTUM)
    annealing = ThresholdAnnealing(net, case.theta)
    membrane, spikes = (torch.empty(iterations, STEPS, len(seeds)) for _ in range(2))
    loss, dead = (torch.empty(iterations, len(seeds)) for _ in range(2))
    theta = torch.empty(iterations)
    for k in range(iterations):
        hidden, output = net()
        if output.membrane is None:
            raise RuntimeError("train_case: the output layer did not keep its membrane, which the loss is of")
        per_seed = trace_errors(output.membrane, target[:, None], case.loss)
        theta[k] = net.output.theta
        membrane[k], spikes[k] = output.membrane.detach(), output.spikes.detach()
        loss[k] = per_seed.detach()
        dead[k] = (hidden.detach().amax(0) == 0).float().mean(1)
        optimizer.zero_grad()
        per_seed.sum().backward()
        optimizer.step()
        annealing.step()
        on_iteration()
    return History(case, tuple(seeds), target, membrane, spikes, loss, dead, theta)


def train_cases(
    cases: Sequence[Case], seeds: Sequence[int], iterations: int, progress: Progress = silent
) -> list[History]:
    """Train every case, as many at once as PyTorch has threads, and return their histories in order.

    One case is too small to be shared by two threads, so two threads train two cases.
    """
    workers = torch.get_num_threads()
    stop = Event()

    def one(case: Case) -> History:
        step = progress(case.title, iterations)

        def on_iteration() -> None:
            if stop.is_set():
                raise InterruptedError("training was interrupted")
            step()

        return train_case(case, seeds, iterations, on_iteration)

    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(workers) as pool:
            running = [pool.submit(one, case) for case in cases]
            try:
                return [case.result() for case in running]
            except BaseException:  # Ctrl-C too: do not wait for the others to end by themselves
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        torch.set_num_threads(workers)
