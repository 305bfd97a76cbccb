"""The training loop. Every number follows from seed and iteration, so a resumed run equals one that never stopped."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch

from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.sharding import set_shard
from bitspike.ops.checks import NotFiniteError
from bitspike.schedules import Schedule
from bitspike.train.best_network import load_best, pack_best
from bitspike.train.checkpoint import save_checkpoint
from bitspike.train.config import TrainConfig
from bitspike.train.evaluation import Evaluation, evaluate, evaluation_batch
from bitspike.train.health import SilentLayers, nan_message
from bitspike.train.numerics import cast
from bitspike.train.origin import Origin
from bitspike.train.progress import Ending, Listener, Progress, drive
from bitspike.train.resuming import checkpoint_of, resume
from bitspike.train.run_folder import Board, Row, RunFolder
from bitspike.train.stepping import Stepper
from bitspike.train.tasks import Task
from bitspike.train.world import World

__all__ = ["Listener", "Progress", "Trainer"]


class Trainer(Stepper):
    """Trains `net` on `samples` and chooses an epoch: the best by its accuracy on `selection_samples`, or the last.

    It writes the run's files, and can resume from them.
    """

    def __init__(
        self,
        net: SpikingNetwork,
        schedules: Sequence[Schedule],
        task: Task,
        samples: Samples,
        selection_samples: Samples,
        config: TrainConfig,
        folder: RunFolder,
        *,
        seed: int,
        repeat: int = 1,
        identity: str = "",
        origin: Origin = Origin(),  # noqa: B008
        world: World = World(),  # noqa: B008
        listener: Listener = Listener(),  # noqa: B008
        graph: bool = True,
    ) -> None:
        if min(len(samples), len(selection_samples), config.batch) < world.size:
            raise ValueError(f"train: {world.size} processes need at least as many samples and a batch of as many")
        super().__init__(net, schedules, task, samples, config, seed=seed, repeat=repeat, world=world, graph=graph)
        self.selection_samples, self.folder, self.listener = selection_samples, folder, listener
        self.identity, self.origin = identity, origin
        self.chosen_on = "test" if config.protocol == "paper" else "valid"
        self.silent = SilentLayers(self.net.neuron_names())
        self._saved_at = self._counted_to = time.perf_counter()
        self._expects_graph = graph and self.device.type == "cuda"

    # Epochs

    def run(self) -> Ending:
        """Train until the epochs are done, patience runs out, or the run is stopped; return which of these ended it."""
        return drive(self.run_stepwise(), partial(self.step, 1))

    def run_stepwise(self) -> Generator[None, None, Ending]:
        """Do what `run` does, but yield where an iteration is due: the caller runs it, and throws its errors in."""
        config, progress = self.config, self.progress
        board = None
        if config.tensorboard and self.world.first:
            board = Board(self.folder.path, progress.step, self.net.firing_names())
            if progress.rows and not progress.iteration:  # its point was purged, or never written
                board.add(progress.rows[-1])
        if self.world.first:
            self.folder.rewrite_metrics(progress.rows)
        try:
            if progress.rows and not progress.iteration and (ending := self._ending()) is not None:
                return ending  # it had ended, but was killed before the summary was written
            while progress.epoch < config.epochs:
                began = self._counted_to = time.perf_counter()
                if not (yield from self._train_epoch_stepwise()):
                    return "interrupted"
                row = self._end_epoch(began)
                if board is not None:
                    board.add(row)
                if (ending := self._ending()) is not None:
                    return ending
            return "epochs"
        except NotFiniteError as error:  # `lif` looks at its currents on the CPU: training cannot go on
            if self.world.size > 1:  # the other processes may not have seen it, and would wait: end them all
                raise
            self._warn_not_finite(str(error))
            return "nan"
        finally:
            set_dropout_key(self.net, None)
            if board is not None:
                board.close()

    def train_epoch(self) -> bool:
        """Train the rest of the current epoch; return False if it was interrupted (and saved)."""
        return drive(self._train_epoch_stepwise(), partial(self.step, 1))

    def _train_epoch_stepwise(self) -> Generator[None, None, bool]:
        """Do what `train_epoch` does, but yield where an iteration is due: the caller runs it."""
        progress, count = self.progress, self.work.count
        if progress.iteration < count:  # a run resumed may only have to be evaluated
            self.begin_epoch()
        self.listener.epoch_begins(progress.epoch + 1, count, progress.iteration)
        while progress.iteration < count:
            yield
            watched = progress.step % self.config.watch_every == 0 or progress.iteration == 1
            self.listener.iteration(self._watch() if watched else None)
            due = time.perf_counter() - self._saved_at > 60 * self.config.checkpoint_minutes
            stop, due = self._agreed(self.listener.interrupted(), due)
            if stop and progress.iteration < count:
                self.save()
                return False
            if due:
                self.save()
        self._tell_why_no_graph()
        return True

    def _tell_why_no_graph(self) -> None:
        """Tell the listener once why no CUDA graph is used, and only if a graph could be expected."""
        if self._expects_graph and (reason := self.captured.reason) is not None:
            self.listener.note(f"iterations are launched one by one, not as a CUDA graph: {reason}")
            self._expects_graph = False

    def _watch(self) -> dict[str, Any]:
        """Return the figures of the last batch, and warn of layers that were silent."""
        figures = self.watch_batch()
        if self.world.size == 1:
            self._warn_of_silence(figures["dead"], whole=False)
        return figures

    def _end_epoch(self, began: float) -> Row:
        """Evaluate the epoch, choose the best one, and write the checkpoint, the best network and the metrics."""
        progress = self.progress
        self.world.sum_(self.sums)
        loss, right, count = self.sums.tolist()
        trained = time.perf_counter()
        result = self.evaluate(self.selection_samples)
        now = time.perf_counter()
        progress.epoch += 1
        row: Row = {
            "epoch": progress.epoch,
            "step": progress.step,
            "lr": self.work.learning_rate(progress.step - 1),
            "train_loss": loss / count,
            "train_accuracy": right / count,
            f"{self.chosen_on}_loss": result.loss,
            f"{self.chosen_on}_accuracy": result.accuracy,
            "theta": self.thetas(),
            "dead": result.dead,
            "spikes": result.spikes,
            "timing": {
                "train_seconds": trained - began,
                "evaluate_seconds": now - trained,
                # within a graph nothing can be timed
                "data_share": None if self.captured.recorded else self.work.watch.seconds() / (trained - began),
            },
        }
        self._warn_of_silence(result.dead, whole=True)
        if result.accuracy > progress.best_accuracy:
            progress.improved_epoch = progress.epoch
        if self.config.choose == "last":
            chosen = self.bad.found() is None  # the last that is finite
        else:
            chosen = (result.accuracy, -result.loss) > (progress.best_accuracy, -progress.best_loss)
        if chosen:
            progress.best_epoch = progress.epoch
            progress.best_accuracy, progress.best_loss = result.accuracy, result.loss
            progress.best_digest = ""  # known to the process that writes the file
        progress.iteration = 0
        self.sums.zero_()
        progress.seconds += now - self._counted_to
        progress.rows.append(row)
        best = pack_best(self) if chosen and self.world.first else None
        # The checkpoint comes first: if a later write fails, `repair_best` repairs the other files from it.
        self.save()
        if best is not None:
            best.write(self.folder.best)
        if self.world.first:
            self.folder.add_metrics(row)
        self.listener.epoch_ends(row)
        return row

    def evaluate(self, samples: Samples) -> Evaluation:
        """Evaluate the network on `samples`, in the form that `as_judged` gives it."""
        config = self.config
        set_shard(self.net, None)
        start, stop = self.world.share(len(samples))
        batch = evaluation_batch(config.evaluate_batch, samples)
        tick = self.listener.evaluation_begins(-(-(stop - start) // batch))
        with cast(config.precision, self.device), self.as_judged():
            for trick in self.work.tricks:
                trick.before_evaluation()
            return evaluate(self.net, samples, self.task, batch=batch, world=self.world, on_batch=tick)

    @contextmanager
    def as_judged(self) -> Iterator[None]:
        """Put the network in the form that is evaluated and saved: final thresholds, and changes by tricks."""
        with ExitStack() as changed:
            if self.config.evaluate_theta == "final":
                changed.enter_context(self.annealing.finish())
            for trick in self.work.tricks:
                changed.enter_context(trick.as_judged(self.progress.step))
            yield

    def _ending(self) -> Ending | None:
        """Return why the run ends after this epoch; None if it goes on."""
        config, progress = self.config, self.progress
        if self.bad.found() is not None:
            self._warn_not_finite("")
            if config.on_nan == "stop":
                return "nan"
        if self.silent.found() and config.on_dead == "stop":
            return "dead"
        if config.patience is not None and progress.epoch - progress.improved_epoch >= config.patience:
            return "patience"
        if self._agreed(self.listener.interrupted())[0]:
            return "interrupted"
        return None

    def _warn_not_finite(self, otherwise: str) -> None:
        bad = self.bad.found()
        self.warn(otherwise if bad is None else nan_message(*bad, self.work.learning_rate(bad[1])))

    def _warn_of_silence(self, dead: list[float], *, whole: bool) -> None:
        for message in self.silent.new_messages(dead, self.progress.step, self.annealing, whole=whole):
            self.warn(message)

    def warn(self, message: str) -> None:
        """Pass a warning to the listener and keep it for the summary; the same warning is passed only once."""
        if message not in self.progress.warnings:
            self.progress.warnings.append(message)
            self.progress.warned_at.append(self.progress.step)
            self.listener.warning(message)

    def _agreed(self, *mine: bool) -> list[bool]:
        """Return for each value whether it is True in any process: clocks and signals differ among processes."""
        if self.world.size == 1:
            return list(mine)
        # on the CPU, so that nobody waits for the device
        return [bool(value) for value in self.world.max_(torch.tensor(mine, dtype=torch.float32, device="cpu"))]

    # Checkpoints

    def save(self) -> None:
        """Write everything that the next iteration depends on into last.ckpt."""
        self._saved_at = time.perf_counter()
        if self.progress.iteration:  # within an epoch, whose end counts from here on
            self.progress.seconds += self._saved_at - self._counted_to
            self._counted_to = self._saved_at
        if self.world.size > 1:  # sums are each process's own until the epoch ends
            self.world.sum_(self.sums)
            if not self.world.first:
                self.sums.zero_()
        if not self.world.first:
            return
        save_checkpoint(self.folder.last, checkpoint_of(self))

    def resume(self) -> None:
        """Continue where last.ckpt was written; start from the beginning if there is none."""
        resume(self)

    def load_best(self) -> None:
        """Load the chosen epoch's network; raise ValueError if best.safetensors holds another."""
        load_best(self)
