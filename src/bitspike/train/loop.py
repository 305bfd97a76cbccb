"""The training loop: every number follows from seed and iteration, so that a run resumed is a run never stopped."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.sharding import set_shard
from bitspike.ops import LIFOutput
from bitspike.ops.checks import NotFiniteError
from bitspike.schedules import Schedule
from bitspike.train.checkpoint import load_checkpoint, save_checkpoint, save_weights
from bitspike.train.config import TrainConfig
from bitspike.train.evaluation import Evaluation, evaluate, fired
from bitspike.train.health import FirstBad, SilentLayers, dead_message, nan_message
from bitspike.train.numerics import cast, dtype_of
from bitspike.train.optim import (
    clip_gradients,
    clip_weights,
    gradient_norms,
    learning_rate,
    make_optimizer,
    set_learning_rate,
)
from bitspike.train.run_folder import Board, Row, RunFolder
from bitspike.train.seeds import mixed, order
from bitspike.train.stopwatch import Stopwatch
from bitspike.train.tasks import Task
from bitspike.train.world import World

Ending = Literal["epochs", "patience", "dead", "nan", "interrupted"]


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told how a run goes; all do nothing unless given."""

    epoch_begins: Callable[[int, int, int], object] = lambda epoch, iterations, done: None
    iteration: Callable[[Mapping[str, Any] | None], object] = lambda watched: None
    evaluation_begins: Callable[[int], Callable[[], object]] = lambda batches: lambda: None
    epoch_ends: Callable[[Row], object] = lambda row: None
    warning: Callable[[str], object] = lambda message: None
    interrupted: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class Progress:
    """Where a run is; all of it goes into the checkpoint."""

    epoch: int = 0  # finished
    iteration: int = 0  # of the epoch in work
    step: int = 0  # iterations so far
    best_epoch: int = 0  # of equally accurate ones, that with the lowest loss
    best_accuracy: float = -1.0
    best_loss: float = math.inf
    improved_epoch: int = 0  # the last with a better accuracy: what patience counts from
    seconds: float = 0.0
    rows: list[Row] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Trainer:
    """Trains `net` on `samples`, choosing the best epoch by its accuracy on `chooser`."""

    def __init__(
        self,
        net: SpikingNetwork,
        schedules: Sequence[Schedule],
        task: Task,
        samples: Samples,
        chooser: Samples,
        config: TrainConfig,
        folder: RunFolder,
        *,
        seed: int,
        repeat: int = 1,
        identity: str = "",
        world: World = World(),  # noqa: B008
        listener: Listener = Listener(),  # noqa: B008
    ) -> None:
        self.device = samples.labels.device
        self.dtype = dtype_of(config.precision)
        self.net = net.to(device=self.device, dtype=self.dtype)
        self.annealing = ThresholdAnnealing(self.net, schedules)  # after the cast: thresholds are written exactly
        self.task = task
        self.samples, self.chooser = samples, chooser
        self.config = config
        self.folder = folder
        self.seed, self.repeat, self.identity = seed, repeat, identity
        self.world, self.listener = world, listener
        self.chosen_on = "test" if config.protocol == "paper" else "valid"
        self.parameters = list(self.net.parameters())
        self.optimizer = make_optimizer(self.net, config)
        self.progress = Progress()
        self.bad = FirstBad([name for name, _ in net.named_parameters()], self.device)
        self.silent = SilentLayers(self.net.neuron_names())
        self.sums = self._no_sums()
        self._saved_at = self._counted_to = time.perf_counter()
        if min(len(samples), len(chooser), config.batch) < world.size:
            raise ValueError(f"train: {world.size} processes need at least as many samples and a batch of as many")

    def _no_sums(self) -> Tensor:
        return torch.zeros(3, dtype=torch.float64, device=self.device)  # loss * samples, right, samples

    # One iteration

    def step(self, rows: Tensor) -> tuple[LIFOutput, ...]:
        """One batch: forward, backward, clips, optimizer, thresholds."""
        progress, config = self.progress, self.config
        torch.manual_seed(mixed(self.seed, "dropout", progress.step))
        start, stop = self.world.share(len(rows))
        set_shard(self.net, self.world.shard(len(rows)))
        with self.watch:
            x, labels = self.samples.batch(rows[start:stop])
        with cast(config.precision, self.device):
            outputs = self.net.run(x.to(self.dtype), keep_hidden_membrane=False)
            if stop > start:
                loss = self.task.loss(outputs[-1], labels) * ((stop - start) / len(rows))
            else:  # no sample here: 0, whose backward still takes part in what processes exchange
                loss = outputs[-1].spikes.sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.world.sum_gradients(self.parameters)
        norms = gradient_norms(self.parameters)
        self.bad.look(norms, progress.step)
        if config.grad_clip is not None:
            clip_gradients(self.parameters, norms, config.grad_clip)
        if config.weight_clip is not None:
            clip_weights(self.parameters, config.weight_clip)
        set_learning_rate(self.optimizer, learning_rate(config, progress.step))
        self.optimizer.step()
        self.annealing.step()
        progress.step += 1
        with torch.no_grad():
            right = self.task.correct(outputs[-1], labels).sum()
            self.sums += torch.stack(
                (loss.double() * len(rows), right.double(), right.new_tensor(stop - start).double())
            )
        return outputs

    def train_epoch(self) -> bool:
        """The rest of the epoch in work; False if it was interrupted (and saved)."""
        progress = self.progress
        self.net.train()
        self.watch = Stopwatch(self.device)
        rows = order(len(self.samples), self.repeat, self.seed, progress.epoch).to(self.device)
        batches = rows.split(self.config.batch)
        self.listener.epoch_begins(progress.epoch + 1, len(batches), progress.iteration)
        while progress.iteration < len(batches):
            outputs = self.step(batches[progress.iteration])
            progress.iteration += 1
            watched = progress.step % self.config.watch_every == 0 or progress.iteration == 1
            self.listener.iteration(self._watch(outputs) if watched else None)
            due = time.perf_counter() - self._saved_at > 60 * self.config.checkpoint_minutes
            stop, due = self._agreed(self.listener.interrupted(), due)
            if stop and progress.iteration < len(batches):
                self.save()
                return False
            if due:
                self.save()
        return True

    def _watch(self, outputs: tuple[LIFOutput, ...]) -> dict[str, Any]:
        """Loss, accuracy, dead share and spikes of this batch, on this process."""
        with torch.no_grad():
            seen = [fired(output) for output in outputs]
            dead = torch.stack([1 - alive.double().mean() for alive, _ in seen]).tolist()
            spikes = (torch.stack([count for _, count in seen]) / max(outputs[0].spikes.shape[1], 1)).tolist()
            loss, right, count = self.sums.tolist()
        count = count or 1  # where other processes hold all samples since the last checkpoint
        if self.world.size == 1:
            self._notice_silence(dead, whole=False)
        return {"loss": loss / count, "accuracy": right / count, "dead": dead, "spikes": spikes, "theta": self.thetas()}

    def thetas(self) -> list[float]:
        """Of every neuron layer, now."""
        return list(self.annealing.thresholds().values())

    # Epochs

    def run(self) -> Ending:
        """Until the epochs are over, patience is, or the run is stopped."""
        config, progress = self.config, self.progress
        board = None
        if config.tensorboard and self.world.first:
            board = Board(self.folder.path, progress.step, self.net.neuron_names())
            if progress.rows and not progress.iteration:  # purged with all from `step` on, or never written
                board.add(progress.rows[-1])
        if self.world.first:
            self.folder.rewrite_metrics(progress.rows)
        try:
            if progress.rows and not progress.iteration and (ending := self._ending()) is not None:
                return ending  # it had ended, but was killed before it could say so
            while progress.epoch < config.epochs:
                began = self._counted_to = time.perf_counter()
                if not self.train_epoch():
                    return "interrupted"
                row = self._end_epoch(began)
                if board is not None:
                    board.add(row)
                if (ending := self._ending()) is not None:
                    return ending
            return "epochs"
        except NotFiniteError as error:  # `lif` looks at its currents on the CPU: training cannot go on
            if self.world.size > 1:  # the others may not have seen it, and wait: end them all
                raise
            self._warn_not_finite(str(error))
            return "nan"
        finally:
            if board is not None:
                board.close()

    def _end_epoch(self, began: float) -> Row:
        progress, config = self.progress, self.config
        self.world.sum_(self.sums)
        loss, right, count = self.sums.tolist()
        trained = time.perf_counter()
        result = self.evaluate(self.chooser)
        now = time.perf_counter()
        progress.epoch += 1
        row: Row = {
            "epoch": progress.epoch,
            "step": progress.step,
            "lr": learning_rate(config, progress.step - 1),
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
                "data_share": self.watch.seconds() / (trained - began),
            },
        }
        self._notice_silence(result.dead, whole=True)
        if result.accuracy > progress.best_accuracy:
            progress.improved_epoch = progress.epoch
        better = (result.accuracy, -result.loss) > (progress.best_accuracy, -progress.best_loss)
        if better:
            progress.best_epoch = progress.epoch
            progress.best_accuracy, progress.best_loss = result.accuracy, result.loss
        progress.iteration, self.sums = 0, self._no_sums()
        progress.seconds += now - self._counted_to
        progress.rows.append(row)
        if self.world.first:
            if better:
                self._save_best(row)
            self.folder.add_metrics(row)
        self.save()
        self.listener.epoch_ends(row)
        return row

    def evaluate(self, samples: Samples) -> Evaluation:
        """With the thresholds of now, or with the final ones where the experiment says so."""
        config = self.config
        set_shard(self.net, None)
        start, stop = self.world.share(len(samples))
        tick = self.listener.evaluation_begins(-(-(stop - start) // config.evaluate_batch))
        with cast(config.precision, self.device), self._thresholds_to_judge():
            return evaluate(self.net, samples, self.task, batch=config.evaluate_batch, world=self.world, on_batch=tick)

    def _save_best(self, row: Row) -> None:
        metadata = {
            "notation": self.net.notation,
            "input_shape": list(self.net.input_shape),
            "epoch": row["epoch"],
            "accuracy": row[f"{self.chosen_on}_accuracy"],
            "accuracy_on": self.chosen_on,
        }
        with self._thresholds_to_judge():
            save_weights(self.folder.best, self.net, metadata)

    def _thresholds_to_judge(self) -> AbstractContextManager[object]:
        return nullcontext() if self.config.evaluate_theta == "current" else self.annealing.finish()

    def _ending(self) -> Ending | None:
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
        self._warn(otherwise if bad is None else nan_message(*bad, learning_rate(self.config, bad[1])))

    def _notice_silence(self, dead: list[float], *, whole: bool) -> None:
        for name in self.silent.look(dead, self.progress.step, whole=whole):
            schedule, theta = self.annealing.schedules()[name], self.annealing.thresholds()[name]
            self._warn(dead_message(name, self.silent.since[name], theta, schedule.final, schedule(0)))

    def _warn(self, message: str) -> None:
        if message not in self.progress.warnings:
            self.progress.warnings.append(message)
            self.listener.warning(message)

    def _agreed(self, *mine: bool) -> list[bool]:
        """Each True on all processes if it is on one: clocks and signals differ among them."""
        if self.world.size == 1:
            return list(mine)
        return [bool(value) for value in self.world.max_(torch.tensor(mine, dtype=torch.float32, device=self.device))]

    # Checkpoints

    def save(self) -> None:
        """Everything that the next iteration depends on, into last.ckpt."""
        self._saved_at = time.perf_counter()
        if self.progress.iteration:  # within an epoch, whose end counts from here on
            self.progress.seconds += self._saved_at - self._counted_to
            self._counted_to = self._saved_at
        if self.world.size > 1:  # sums are each process's own until the epoch ends
            whole = self.world.sum_(self.sums.clone())
            self.sums = whole if self.world.first else self._no_sums()
        if not self.world.first:
            return
        progress = self.progress
        state = {name: getattr(progress, name) for name in Progress.__slots__}
        save_checkpoint(
            self.folder.last,
            {
                "identity": self.identity,
                "net": self.net.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "annealing": self.annealing.state_dict(),
                "progress": state,
                "sums": self.sums,
                "first_bad": self.bad.first,
                "silent": self.silent.state(),
            },
        )

    def resume(self) -> None:
        """Go on where last.ckpt was written; where there is none, start from the beginning."""
        if not self.folder.last.is_file():
            return
        state = load_checkpoint(self.folder.last)
        if state.get("identity") != self.identity:
            raise ValueError(f"{self.folder.last} belongs to another experiment; choose another --out")
        try:
            self.net.load_state_dict(state["net"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.annealing.load_state_dict(state["annealing"])
            self.progress = Progress(**state["progress"])
            self.sums = state["sums"].to(self.device)
            self.bad.first = state["first_bad"].to(self.device)
            self.silent.load(state["silent"])
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise ValueError(f"{self.folder.last} does not fit this experiment: {error}") from None
        if not self.world.first:
            self.sums = self._no_sums()
