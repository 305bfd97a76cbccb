"""Training steps of one network, with its progress and what the last iteration observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.network import Observed
from bitspike.schedules import Schedule
from bitspike.train.capture import Captured
from bitspike.train.config import TrainConfig
from bitspike.train.evaluation import fired_layers
from bitspike.train.iteration import Iteration
from bitspike.train.numerics import dtype_of
from bitspike.train.progress import Progress
from bitspike.train.tasks import Task
from bitspike.train.world import World


class Stepper:
    """Takes training steps: `begin_epoch()`, then `step()` for each iteration of the epoch.

    Several trainers may run their iterations together (`join`), in one CUDA graph.
    """

    def __init__(
        self,
        net: SpikingNetwork,
        schedules: Sequence[Schedule],
        task: Task,
        samples: Samples,
        config: TrainConfig,
        *,
        seed: int,
        repeat: int,
        world: World,
        graph: bool,
    ) -> None:
        self.device = samples.labels.device
        self.net = net.to(device=self.device, dtype=dtype_of(config.precision))
        self.annealing = ThresholdAnnealing(self.net, schedules)  # after the cast: thresholds are written exactly
        self.task, self.samples, self.config, self.world = task, samples, config, world
        self.progress = Progress()
        self.observed: Observed | None = None  # of the last iteration
        self.work = Iteration(
            self.net, self.annealing, task, samples, config, seed=seed, repeat=repeat, world=world, graph=graph
        )
        self.optimizer, self.bad, self.sums = self.work.optimizer, self.work.bad, self.work.sums
        self._joint: Captured[Any] | None = None
        self._graph_before: bool | str | None = None  # what `graph` was in the joint step that it has left

    @property
    def captured(self) -> Captured[Any]:
        """The iteration, its own or a joint one, which is recorded and replayed if possible."""
        return self._joint or self.work.captured

    @property
    def graph(self) -> bool | str:
        """True if iterations are replayed from a CUDA graph; else the reason why not."""
        if self._graph_before is not None:
            return self._graph_before
        return self.captured.recorded or self.captured.reason or "too few iterations to record one"

    def join(self, joint: Captured[Any]) -> None:
        """Let `joint` make the iterations from now on, together with those of other trainers."""
        self._joint, self._graph_before = joint, None

    def leave(self) -> None:
        """Drop all references to the joint step, so that its memory can be freed."""
        self._graph_before = self.graph
        self._joint = self.observed = None
        self.optimizer.zero_grad(set_to_none=True)

    def release(self) -> None:
        """Drop the recording and its memory; call it last, as no step can be taken after it.

        Otherwise only Python's garbage collection frees them: the recording and the iteration refer to each other.
        """
        self.leave()
        self.work.captured.release()

    def begin_epoch(self) -> None:
        """Prepare the rest of the current epoch, or the next one if that is over; `step()` then runs its iterations."""
        progress = self.progress
        if progress.iteration >= self.work.count:
            progress.epoch, progress.iteration = progress.epoch + 1, 0
            self.sums.zero_()
        self.work.begin(progress.epoch, progress.iteration, progress.step)

    def step(self, count: int = 1) -> None:
        """Run `count` iterations; `observed` then holds the output of the last one."""
        progress = self.progress
        if progress.iteration + count > self.work.count:
            left = self.work.count - progress.iteration
            raise ValueError(f"Trainer: {left} iterations of the epoch are left, but step({count}); call begin_epoch()")
        for _ in range(count):
            self.observed = None  # frees its memory for the next, and in autograd the streams it was made on
            self.note_iteration(self.work.run(progress.iteration, progress.step))

    def note_iteration(self, observed: Observed) -> None:
        """Count an iteration that was run, and keep what it observed."""
        self.observed = observed
        self.annealing.passed()
        self.progress.step += 1
        self.progress.iteration += 1

    def watch_batch(self) -> dict[str, Any]:
        """Return loss and accuracy so far, and each layer's dead share, spikes and threshold in the last batch.

        They are those of this process alone, and come in one transfer, because each transfer waits for the device.
        """
        if self.observed is None:
            raise RuntimeError("Trainer: no iteration has been made yet; call step() first")
        with torch.no_grad():
            layers = self.observed.counts()
            seen = fired_layers(self.net, layers)
            dead = torch.stack([1 - alive.double().mean() for alive, _ in seen])
            spikes = torch.stack([count for _, count in seen]) / max(len(layers[0]), 1)
            thetas = torch.stack(self._thetas()).double()
            figures = torch.cat((self.sums, dead, spikes, thetas)).tolist()
        (loss, right, count), rest, n = figures[:3], figures[3:], len(layers)
        count = count or 1  # other processes may hold all samples since the last checkpoint
        return {
            "loss": loss / count,
            "accuracy": right / count,
            "dead": rest[:n],
            "spikes": rest[n : 2 * n],
            "theta": rest[2 * n :],
        }

    def thetas(self) -> list[float]:
        """Return the current threshold of every neuron layer."""
        now: list[float] = torch.stack(self._thetas()).tolist()
        return now

    def _thetas(self) -> list[Tensor]:
        return [self.net.get_buffer(f"{name}.theta") for name in self.net.neuron_names()]
