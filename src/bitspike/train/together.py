"""Several trainers side by side: an iteration of each at a time, on a GPU all of them in one CUDA graph.

A small network leaves most of a GPU idle. Here each has a stream of its own, so that the kernels of several fill it.
Every trainer's numbers are those of a run alone: nothing is shared but the device and the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from bitspike.nn.network import Observed
from bitspike.train.capture import Captured, CudaGraph
from bitspike.train.loop import Trainer
from bitspike.train.progress import Ending, Listener
from bitspike.train.run_folder import Row


@dataclass(frozen=True, slots=True)
class Lane:
    """A trainer and the stream that all its iterations are on: autograd remembers it. None where there is no GPU."""

    trainer: Trainer
    stream: torch.cuda.Stream | None

    @classmethod
    def of(cls, trainer: Trainer) -> Lane:
        """On a stream of higher priority: PyTorch has only so many of each, and hands them out in turn. On one that is
        also beside another trainer's, for the gradients of its weights, the two would wait for each other."""
        return cls(trainer, torch.cuda.Stream(trainer.device, priority=-1) if trainer.device.type == "cuda" else None)


class Joint:
    """`step()` makes the next iteration of every trainer, each of which must have one left in its epoch.

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
        """An iteration of each."""
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
            trainer.took(observed)

    def leave(self) -> None:
        """The trainers hold nothing of it any more."""
        if self.planned:
            for trainer in self.trainers:
                trainer.leave()


def _bodies(lanes: Sequence[Lane], sizes: Sequence[int]) -> list[Observed]:
    """Each trainer's iteration on its own stream, after what is queued on the current one and before what will be.

    At once only within a recording: what a first call leaves for all (tables of offsets) is there by then. From Python
    one after another, where launches take longer than the work anyway.
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


class _Course:
    """A trainer's course on its way; `ending` is None as long as it goes on."""

    def __init__(self, trainer: Trainer) -> None:
        self.lane = Lane.of(trainer)
        self.ending: Ending | None = None
        self._steps = trainer.course()

    def go_on(self) -> None:
        """Up to where the next iteration is to be made, or to the end."""
        self._until(partial(next, self._steps))

    def turn(self) -> None:
        """An iteration of its own; one that fails does so within the course, which may end by it."""
        try:
            self.lane.trainer.step(1)
        except BaseException as error:
            self._until(partial(self._steps.throw, error))

    def _until(self, proceed: Callable[[], object]) -> None:
        try:
            proceed()
        except StopIteration as end:
            self.ending = end.value

    def close(self) -> None:
        self._steps.close()


def run_together(trainers: Sequence[Trainer]) -> list[Ending]:
    """How each of them ended; each does what its `run()` does, an iteration of all at a time.

    Trainers that end leave, and the iterations of the others are recorded anew. Each keeps its own epochs, so that
    they may begin at different places; where one evaluates or saves, the others wait.
    """
    _check(trainers)
    courses = [_Course(trainer) for trainer in trainers]
    joint: Joint | None = None
    try:
        for course in courses:
            course.go_on()
        while running := [course for course in courses if course.ending is None]:
            if joint is None or len(joint.trainers) > len(running):
                if joint is not None:
                    joint.leave()
                joint = None  # frees its memory before the next takes as much
                joint = Joint(course.lane for course in running)
            if joint.planned:
                joint.step()
            else:
                for course in running:
                    course.turn()
            for course in running:
                if course.ending is None:
                    course.go_on()
    finally:
        if joint is not None:
            joint.leave()
        for course in courses:
            course.close()
    return [course.ending for course in courses if course.ending is not None]


def _check(trainers: Sequence[Trainer]) -> None:
    devices = {str(trainer.device) for trainer in trainers}
    if len(devices) != 1:
        raise ValueError(f"run_together: the trainers must be on one device, but are on {sorted(devices) or 'none'}")
    if any(trainer.world.size > 1 for trainer in trainers):
        raise ValueError("run_together: one process trains them all; leave torchrun out, or train them one by one")
    if len({trainer.folder.path for trainer in trainers}) < len(trainers):
        raise ValueError("run_together: each trainer needs a folder of its own")


class Chorus:
    """One listener told of several runs at once: rows carry their `trial`, warnings begin with it, and of epochs and
    iterations only those of the run that leads are told."""

    def __init__(self, listener: Listener, trials: int) -> None:
        self.listener, self.trials = listener, trials
        self._lead, self._epoch, self._quiet = 0, 0, 0
        self._noted: set[str] = set()

    def voice(self, trial: int) -> Listener:
        """The listener of one of the runs."""
        return replace(
            self.listener,
            epoch_begins=partial(self._epoch_begins, trial),
            iteration=partial(self._iteration, trial),
            epoch_ends=partial(self._epoch_ends, trial),
            warning=lambda message: self.listener.warning(f"trial {trial}: {message}"),
            note=self._note,
        )

    def _epoch_begins(self, trial: int, epoch: int, iterations: int, done: int) -> None:
        if trial == self._lead or epoch > self._epoch:
            self._lead, self._epoch, self._quiet = trial, epoch, 0
            self.listener.epoch_begins(epoch, iterations, done)

    def _iteration(self, trial: int, watched: Mapping[str, Any] | None) -> None:
        if trial == self._lead:
            self._quiet = 0
            self.listener.iteration(watched)
            return
        self._quiet += 1
        if self._quiet > self.trials:  # the lead has ended
            self._lead = trial

    def _epoch_ends(self, trial: int, row: Row) -> None:
        self.listener.epoch_ends({**row, "trial": trial})

    def _note(self, message: str) -> None:
        if message not in self._noted:
            self._noted.add(message)
            self.listener.note(message)
