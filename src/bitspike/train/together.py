"""Several trainers at the same time: one iteration of each in turn, on a GPU all of them in one CUDA graph.

A small network leaves most of a GPU idle. Here each has a stream of its own, so that the kernels of several fill it.
Every trainer's numbers are those of a run alone: nothing is shared but the device and the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from bitspike.nn.network import Observed
from bitspike.train.capture import Captured, CudaGraph
from bitspike.train.loop import Trainer
from bitspike.train.progress import Ending


@dataclass(frozen=True, slots=True)
class Lane:
    """A trainer and the CUDA stream of all its iterations, which autograd remembers; None without a GPU."""

    trainer: Trainer
    stream: torch.cuda.Stream | None

    @classmethod
    def for_trainer(cls, trainer: Trainer) -> Lane:
        """Give the trainer a stream of higher priority than those on which the gradients of weights are computed.

        PyTorch has only so many streams of each priority, and hands them out in turn: with one priority for both, a
        trainer could get the stream of another's gradients, and the two would wait for each other.
        """
        return cls(trainer, torch.cuda.Stream(trainer.device, priority=-1) if trainer.device.type == "cuda" else None)


class Joint:
    """One joint step of several trainers: `step()` runs the next iteration of each, which must have one left.

    Where a plan on the device holds all that they need, iterations of whole batches are recorded and replayed as one.
    Without it (on a CPU) they take turns.
    """

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self._lanes = tuple(lanes)
        self.trainers = [lane.trainer for lane in self._lanes]
        works = [trainer.work for trainer in self.trainers]
        self.planned = all(work.planned for work in works)
        self._captured = Captured(
            partial(_bodies, self._lanes, [work.batch for work in works]),
            self.trainers[0].device,
            refusal=next((work.refusal for work in works if work.refusal is not None), None),
            graph=CudaGraph,
        )
        if self.planned:
            for trainer in self.trainers:
                trainer.join(self._captured)

    def step(self) -> None:
        """Run one iteration of each trainer."""
        if not self.planned:
            for trainer in self.trainers:
                trainer.step(1)
            return
        sizes = [trainer.work.size(trainer.progress.iteration) for trainer in self.trainers]
        for trainer in self.trainers:
            trainer.observed = None  # as in Trainer.step
        if all(size == trainer.work.batch for size, trainer in zip(sizes, self.trainers, strict=True)):
            seen = self._captured()
        else:  # the rest of an epoch's samples
            seen = self._captured.plainly(partial(_bodies, self._lanes, sizes))
        for trainer, observed in zip(self.trainers, seen, strict=True):
            trainer.note_iteration(observed)

    def leave(self) -> None:
        """Make the trainers drop all references to the joint step."""
        if self.planned:
            for trainer in self.trainers:
                trainer.leave()


def _bodies(lanes: Sequence[Lane], sizes: Sequence[int]) -> list[Observed]:
    """Run each trainer's iteration on its own stream: after what the current stream has queued, before what it will.

    They run at once only within a recording, when tables that a first call makes for all exist. From Python they run
    one after another, because launches take longer than the work anyway.
    """
    streams = [lane.stream for lane in lanes if lane.stream is not None]
    if not streams:
        return [lane.trainer.work.body(size) for lane, size in zip(lanes, sizes, strict=True)]
    here = torch.cuda.current_stream(streams[0].device)
    at_once = torch.cuda.is_current_stream_capturing()
    for stream in streams if at_once else ():
        stream.wait_stream(here)
    seen = []
    for lane, stream, size in zip(lanes, streams, sizes, strict=True):
        if not at_once:
            stream.wait_stream(here)
        with torch.cuda.stream(stream):
            seen.append(lane.trainer.work.body(size))
        if not at_once:
            here.wait_stream(stream)
    for stream in streams if at_once else ():
        here.wait_stream(stream)
    return seen


class _StepwiseRun:
    """One trainer's run, done step by step; `ending` is None as long as it goes on."""

    def __init__(self, trainer: Trainer) -> None:
        self.lane = Lane.for_trainer(trainer)
        self.ending: Ending | None = None
        self._steps = trainer.run_stepwise()

    def advance(self) -> None:
        """Continue until the next iteration is due, or to the end."""
        self._proceed(partial(next, self._steps))

    def step_alone(self) -> None:
        """Run one iteration of this trainer alone; an error is thrown into the run, which may end it."""
        try:
            self.lane.trainer.step(1)
        except BaseException as error:
            self._proceed(partial(self._steps.throw, error))

    def _proceed(self, proceed: Callable[[], object]) -> None:
        """Call `proceed`, and set `ending` if the run returns."""
        try:
            proceed()
        except StopIteration as end:
            self.ending = end.value

    def close(self) -> None:
        self._steps.close()


def run_together(trainers: Sequence[Trainer]) -> list[Ending]:
    """Train all trainers, one iteration of each at a time, and return how each run ended.

    When a trainer ends, the iterations of the others are recorded again. Each keeps its own epochs, so they may start
    at different places; while one evaluates or saves, the others wait.
    """
    _check(trainers)
    runs = [_StepwiseRun(trainer) for trainer in trainers]
    joint: Joint | None = None
    try:
        for run in runs:
            run.advance()
        while running := [run for run in runs if run.ending is None]:
            if joint is None or len(joint.trainers) > len(running):
                if joint is not None:
                    joint.leave()
                joint = None  # frees its memory before the next takes as much
                joint = Joint(run.lane for run in running)
            if joint.planned:
                joint.step()
            else:
                for run in running:
                    run.step_alone()
            for run in running:
                if run.ending is None:
                    run.advance()
    finally:
        if joint is not None:
            joint.leave()
        for run in runs:
            run.close()
    return [run.ending for run in runs if run.ending is not None]


def _check(trainers: Sequence[Trainer]) -> None:
    """Raise ValueError unless the trainers can be trained together."""
    devices = {str(trainer.device) for trainer in trainers}
    if len(devices) != 1:
        raise ValueError(f"run_together: the trainers must be on one device, but are on {sorted(devices) or 'none'}")
    if any(trainer.world.size > 1 for trainer in trainers):
        raise ValueError("run_together: one process trains them all; leave torchrun out, or train them one by one")
    if len({trainer.folder.path for trainer in trainers}) < len(trainers):
        raise ValueError("run_together: each trainer needs a folder of its own")
