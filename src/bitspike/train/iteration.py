"""One training iteration as a function that uses only device memory, so that a CUDA graph can record all of it."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.network import Observed
from bitspike.nn.sharding import set_shard
from bitspike.ops.available import fused_on_gpu
from bitspike.ops.native.library import library
from bitspike.train.capture import Captured, CudaGraph
from bitspike.train.config import TrainConfig
from bitspike.train.health import FirstBad
from bitspike.train.labels import Labels, own_labels
from bitspike.train.learning_rates import group_rates, make_rate
from bitspike.train.numerics import as_input, cast, dtype_of
from bitspike.train.optim import gradient_norms, make_optimizer, parameter_groups, set_learning_rates
from bitspike.train.plan import Plan
from bitspike.train.seeds import mixed, order
from bitspike.train.split_graph import SplitGraph
from bitspike.train.stopwatch import Stopwatch
from bitspike.train.tasks import Task, judge_output
from bitspike.train.tricks import make_tricks
from bitspike.train.tricks.trick import Fetch, Setup
from bitspike.train.world import World


def planned_on(device: torch.device) -> bool:
    """Return whether the learning rate is read from the plan: it is on a GPU, which then need not wait for the host.

    On a CPU it comes from the host, in Python's precision.
    """
    return device.type == "cuda"


def keyed_on(device: torch.device) -> bool:
    """Return whether dropout draws from the plan's keys: it does wherever there is a kernel for it.

    Elsewhere it draws from torch's generator, which is slower than such a kernel, and faster than the definition.
    """
    return planned_on(device) or library() is not None


def no_graph(device: torch.device) -> str | None:
    """Return why iterations cannot be recorded in a CUDA graph; None if they can."""
    return None if device.type == "cuda" else "CUDA graphs need a GPU"


class Iteration:
    """One iteration: batch, forward, loss, backward, optimizer, thresholds, sums, and what its tricks do in between.

    What depends on the iteration is read from a plan on the device. With `graph`, iterations of a whole batch are
    recorded and replayed where they can be.
    """

    def __init__(
        self,
        net: SpikingNetwork,
        annealing: ThresholdAnnealing,
        task: Task,
        samples: Samples,
        config: TrainConfig,
        *,
        seed: int,
        repeat: int,
        world: World,
        graph: bool,
    ) -> None:
        self.net, self.annealing, self.task, self.samples, self.config = net, annealing, task, samples, config
        self.seed, self.repeat, self.world = seed, repeat, world
        self.device = samples.labels.device
        self.planned, self.keyed = planned_on(self.device), keyed_on(self.device)
        self.dtype = dtype_of(config.precision)
        self.total = len(samples) * repeat
        self.batch = min(config.batch, self.total)
        self.count = -(-self.total // self.batch)  # iterations an epoch
        iterations = config.epochs * self.count
        self.learning_rate = make_rate(config, iterations)  # of the run's iteration
        self.rates = group_rates(config, [group.lr for group in parameter_groups(net, config)], iterations)
        self.tricks = make_tricks(Setup(net, samples, config, seed, iterations, world.size))
        numbers = [tensor for trick in self.tricks for tensor in trick.tensors()]
        self.plan = Plan(self.count, self.batch, [*annealing.buffers(), *numbers], self.device, len(self.rates))
        self.parameters = list(net.parameters())
        self.optimizer = make_optimizer(net, config, *(self.plan.rates if self.planned else ()))
        self.bad = FirstBad([name for name, _ in net.named_parameters()], self.device)
        # in place for good, as a graph needs it: loss * samples, right, samples
        self.sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        self.shares = {size: self._share(size) for size in (self.batch, self.size(self.count - 1))}
        self.watch = Stopwatch(self.device)
        self.refusal = no_graph(self.device) if graph else "switched off"
        self.forget()

    def _share(self, size: int) -> Tensor:
        """Return the number of this process's samples in a batch of `size`, as a tensor on the device."""
        start, stop = self.world.share(size)
        return torch.tensor(float(stop - start), dtype=torch.float64, device=self.device)

    def forget(self) -> None:
        """Drop the recording, and record again after three iterations: the optimizer may use other memory now."""
        full = partial(self.body, self.batch)
        graph = CudaGraph if self.world.size == 1 else SplitGraph
        self.captured = Captured(full, self.device, refusal=self.refusal, graph=graph)

    def begin(self, epoch: int, iteration: int, step: int) -> None:
        """Copy the plan of `epoch` to the device; the next is its `iteration`, which is the run's `step`."""
        steps = range(step - iteration, step - iteration + self.count)
        self.plan.write(
            order(len(self.samples), self.repeat, self.seed, epoch),
            steps,
            [[rate(step) for rate in self.rates] for step in steps],
            [self._planned(step + 1) for step in steps],
            [mixed(self.seed, "dropout", step) for step in steps],
        )
        self.plan.seek(iteration)
        for trick in self.tricks:
            for tensor, value in zip(trick.tensors(), trick.values(step), strict=True):
                tensor.fill_(value)
        set_dropout_key(self.net, self.plan.key if self.keyed else None)
        self.net.train()
        self.watch = Stopwatch(self.device)

    def _planned(self, step: int) -> list[float]:
        """Return the thresholds and the tricks' numbers for the run's iteration `step`."""
        return [*self.annealing.values(step), *(value for trick in self.tricks for value in trick.values(step))]

    def size(self, iteration: int) -> int:
        """Return the number of samples of an iteration: the epoch's last takes what is left."""
        return min(self.batch, self.total - iteration * self.batch)

    def run(self, iteration: int, step: int) -> Observed:
        """Run `iteration` of the epoch, which is the run's `step`; call `begin` first."""
        if not self.planned:
            torch.manual_seed(mixed(self.seed, "dropout", step))
            set_learning_rates(self.optimizer, [rate(step) for rate in self.rates])
        size = self.size(iteration)
        return self.captured() if size == self.batch else self.captured.plainly(partial(self.body, size))

    def body(self, size: int) -> Observed:
        """Run the iteration at the plan's cursor, with `size` samples; nothing in it waits for the device."""
        plan, config, world = self.plan, self.config, self.world
        plan.next()
        start, stop = world.share(size)
        set_shard(self.net, world.shard(size, self.net.glances))
        rows = plan.rows[start:stop]
        with self.watch:
            x, labels = self._batch(rows, start)
        with cast(config.precision, self.device):
            observed = self.net.observe(as_input(x, self.dtype))
            if stop == start:  # no sample here: 0, whose backward still takes part in what processes exchange
                loss, right = observed.output.spikes.sum(), own_labels(labels)
            else:
                loss, right = judge_output(self.net, self.task, observed.output, labels)
                if world.size > 1:
                    loss = loss * ((stop - start) / size)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autograd.set_multithreading_enabled(world.size == 1):  # a SplitGraph is cut in this thread
            loss.backward()
        world.sum_gradients(self.parameters)
        self._update()
        self._tally(loss, right, size)
        return observed

    def _batch(self, rows: Tensor, start: int) -> tuple[Tensor, Labels]:
        """Return inputs and labels of `rows`, as the tricks change them; `start` is their place in the batch."""
        fetch: Fetch = self.samples.batch
        for trick in self.tricks:
            fetch = partial(trick.batch, fetch, first_row=start, key=self.plan.key)
        return fetch(rows)

    @torch.no_grad()
    def _tally(self, loss: Tensor, right: Tensor, size: int) -> None:
        if self.world.size == 1 and right.dtype == torch.float32 and fused_on_gpu(right.device):
            from bitspike.ops.batches.triton import tally_

            tally_(self.sums, loss, right)
            return
        self.sums += torch.stack((loss.double() * size, right.sum(dtype=torch.float64), self.shares[size]))

    def _update(self) -> None:
        """Update weights and thresholds from the gradients."""
        norms = gradient_norms(self.parameters)
        self.bad.look(norms, self.plan.step)
        for trick in self.tricks:
            trick.on_gradients(norms)
        self.optimizer.step()
        for trick in self.tricks:
            trick.after_update()
        self.plan.write_values()
