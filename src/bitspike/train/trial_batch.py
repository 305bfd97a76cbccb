"""One iteration of several trainers as one chain of kernels, which have a trial dimension (ops/trials.py).

A stream for each of several small networks makes many small kernels, which take longer to start (1.4 us each in one
graph on an H200) than to run. Here one kernel does its work for all trials. Each trial's numbers are those of a run
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bitspike.data.frames import Frames
from bitspike.nn.network import Observed
from bitspike.ops.available import fused_on_gpu
from bitspike.train.stepping import Stepper
from bitspike.train.tasks import CountTask
from bitspike.train.tricks.clips import ClipGradients, ClipLatentWeights, ClipWeights, clip_weights

if TYPE_CHECKING:
    from bitspike.nn.fast.trials import TrialsOutput

# Neurons times steps of a batch above which kernels take longer to run than to start: streams of their own, which
# overlap unlike kernels, are then as fast. DVS128 at batch 8 has 3.2 million and came out even (docs/reports/speed.md).
MOST_NEURON_STEPS = 2**21
_KNOWN_TRICKS = (ClipGradients, ClipWeights, ClipLatentWeights)

SideBySide = Callable[[Sequence[Callable[[], object]]], object]  # runs functions, one for each trial, at the same time


def unlike(trainers: Sequence[Stepper]) -> str | None:
    """Return why iterations of the trainers are not one chain of kernels; None if they can be."""
    first = trainers[0]
    if len(trainers) < 2:
        return "there is one trial"
    if not fused_on_gpu(first.device) or not all(t.work.planned and t.world.size == 1 for t in trainers):
        return "fused kernels need a GPU"
    if not isinstance(first.samples, Frames) or any(t.samples is not first.samples for t in trainers):
        return "the trials do not share samples of event counts"
    if any(t.config.precision != "float32" or t.net.glances > 1 for t in trainers):
        return "a trial has glances, or another precision than float32"
    if any(not isinstance(trick, _KNOWN_TRICKS) for t in trainers for trick in t.work.tricks):
        return "a trick of training has no trial dimension"
    if any(type(t.task) is not CountTask or t.task.weights is not None for t in trainers):
        return "a trial has another loss than that of counts"
    if len({(_targets(t), t.work.batch, t.work.plan.memory()[2].shape[1]) for t in trainers}) > 1:
        return "the trials differ in their batch, their loss or what changes with the iteration"
    return _unlike_networks(trainers)


def _unlike_networks(trainers: Sequence[Stepper]) -> str | None:
    from bitspike.nn.fast.trials import unlike_trials
    from bitspike.ops.loss.triton import MOST_CLASSES

    nets, first = [t.net for t in trainers], trainers[0]
    x = torch.zeros(1, 1, *first.samples.shape, dtype=torch.uint8, device=first.device)
    if reason := unlike_trials(nets, x):
        return reason
    if any(net.readout != "spikes" or len(net.layers[-1].synapse.weight) > MOST_CLASSES for net in nets):  # type: ignore[union-attr, arg-type]
        return "a network is read by its membrane, or has very many classes"
    neurons = _neuron_steps(first)
    if neurons > MOST_NEURON_STEPS:
        return f"a batch has {neurons} neuron-steps, which fill the GPU"
    return None


def _neuron_steps(trainer: Stepper) -> int:
    from bitspike.nn.notation import count_neurons, parse

    layers, _ = parse(trainer.net.notation, trainer.net.input_shape)
    return (trainer.samples.steps or 1) * trainer.work.batch * count_neurons(layers)


def _targets(trainer: Stepper) -> tuple[int, int]:
    """Return the counts of spikes that the loss wants of the right class and of others."""
    task, steps = trainer.task, trainer.samples.steps or 1
    return (int(steps * task.on), int(steps * task.off)) if isinstance(task, CountTask) else (0, 0)


class TrialBatch:
    """The iterations of trainers for which `unlike` finds no reason. Their tensors must stay in their places."""

    def __init__(self, trainers: Sequence[Stepper]) -> None:
        from bitspike.nn.fast.trials import TrialNetworks
        from bitspike.ops.trials import addresses

        if not isinstance(trainers[0].samples, Frames):
            raise TypeError("TrialBatch: the samples must be event counts; ask unlike() first")
        self.trainers, self._samples = list(trainers), trainers[0].samples
        works, device = [trainer.work for trainer in trainers], trainers[0].device
        self._networks = TrialNetworks([t.net for t in trainers], [work.plan.key for work in works])
        memories = [work.plan.memory() for work in works]
        tables, cursors, lines = (addresses(part) for part in zip(*memories, strict=True))
        self._plans = tables, cursors, lines
        self._width = memories[0][2].shape[1]
        self._rows = addresses([work.plan.rows for work in works])
        self._steps = addresses([work.plan.step for work in works])
        self._first_bad = addresses([work.bad.first for work in works])
        self._sums = addresses([work.sums for work in works])
        self._on, self._off = _targets(trainers[0])
        self._parameters = [work.parameters for work in works]
        limits = [_setting(trainer, ClipGradients, "limit") for trainer in trainers]
        self._clips = any(limit is not None for limit in limits)
        self._limited = torch.tensor([limit is not None for limit in limits], device=device)
        self._limits = torch.tensor([limit or 0.0 for limit in limits], dtype=torch.float32, device=device)
        self._all_limited = all(limit is not None for limit in limits)

    def body(self, size: int, side_by_side: SideBySide) -> list[Observed]:
        """Run the iteration at the cursor of every trial's plan, with `size` samples each."""
        from bitspike.ops.loss.triton import count_loss_trials

        for parameters in self._parameters:
            for p in parameters:
                p.grad = None  # frees its memory for the next
        with torch.no_grad():
            x, labels = self._batch(size)
            output = self._networks.forward(x)
            losses, rights, by_count = count_loss_trials(output.spikes, labels, self._on, self._off)
            self._update(self._networks.backward(output, by_count), losses, rights, side_by_side)
        return self._observed(output)

    def _batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Move all plans on; return counts `[k, T, B, ...]` and labels `[k, B]` of their rows."""
        from bitspike.ops.batches.trials import next_lines, scatter_trials

        samples = self._samples
        next_lines(self._plans, self._width)
        counts, labels = scatter_trials(
            samples.index, samples.count, samples.starts, samples.lengths, samples.labels, self._rows, size,
            samples.steps, torch.Size(samples.shape).numel(), samples.longest,
        )  # fmt: skip
        return counts.view(*counts.shape[:3], *samples.shape), labels

    def _update(self, grads: list[Tensor], losses: Tensor, rights: Tensor, side_by_side: SideBySide) -> None:
        """Update all weights and thresholds from gradients with a trial dimension, and add up losses."""
        from bitspike.ops.batches.trials import note_first_bad_trials, tally_trials

        count, each = len(self.trainers), [list(grad.unbind()) for grad in grads]
        norms = torch.stack(torch._foreach_norm([own[i] for i in range(count) for own in each])).view(count, -1)
        note_first_bad_trials(self._first_bad, norms, self._steps)
        if self._clips:
            self._clip(grads, norms)
        for parameters, own in zip(self._parameters, zip(*each, strict=True), strict=True):
            for p, grad in zip(parameters, own, strict=True):
                p.grad = grad
        self._bound(ClipWeights, "parameters")
        loss = torch.empty(count, dtype=torch.float32, device=losses.device)
        side_by_side([partial(self._step, i, losses[i], loss[i]) for i in range(count)])
        self._bound(ClipLatentWeights, "weights")
        plans = [trainer.work.plan for trainer in self.trainers]
        torch._foreach_copy_([t for plan in plans for t in plan.targets], [v for plan in plans for v in plan.values])
        tally_trials(self._sums, loss, rights)

    def _clip(self, grads: list[Tensor], norms: Tensor) -> None:
        """Scale the gradients of trials with a bound, in the order of operations of `clip_gradients`."""
        scale = ((torch.linalg.vector_norm(norms, dim=1) + 1e-6).reciprocal() * self._limits).clamp(max=1.0)
        if not self._all_limited:
            scale = torch.where(self._limited, scale, 1.0)
        for grad in grads:
            grad.mul_(scale.view(-1, *(1 for _ in grad.shape[1:])))

    def _bound(self, kind: type[ClipWeights] | type[ClipLatentWeights], name: str) -> None:
        """Clamp the weights of trials that have this trick, with one call for all of one bound."""
        tricks = [trick for trainer in self.trainers for trick in trainer.work.tricks if type(trick) is kind]
        for bound in sorted({trick.bound for trick in tricks}):
            weights = [w for trick in tricks if trick.bound == bound for w in getattr(trick, name)]
            if weights:
                clip_weights(weights, bound)

    def _step(self, trial: int, losses: Tensor, loss: Tensor) -> None:
        """Take one trial's optimizer step, and add up its loss."""
        torch.sum(losses, 0, out=loss)
        self.trainers[trial].work.optimizer.step()

    def _observed(self, output: TrialsOutput) -> list[Observed]:
        return [self._networks.observed(output, trial) for trial in range(len(self.trainers))]


def _setting(trainer: Stepper, kind: type[ClipGradients], name: str) -> float | None:
    """Return a number of the trainer's trick of this kind; None if it has no such trick."""
    return next((getattr(trick, name) for trick in trainer.work.tricks if type(trick) is kind), None)
