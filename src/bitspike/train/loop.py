"""The training loop: every number follows from seed and iteration, so that a run resumed is a run never stopped."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.network import Observed
from bitspike.nn.sharding import set_shard
from bitspike.ops.checks import NotFiniteError
from bitspike.schedules import Schedule
from bitspike.train.capture import Captured
from bitspike.train.checkpoint import (
    PackedWeights,
    WeightsInfo,
    load_checkpoint,
    load_weights,
    pack_weights,
    save_checkpoint,
    weights_info,
)
from bitspike.train.config import TrainConfig
from bitspike.train.evaluation import Evaluation, evaluate, evaluation_batch, fired
from bitspike.train.health import MOST_NAMED, SilentLayers, dead_layers_message, dead_message, nan_message
from bitspike.train.iteration import Iteration
from bitspike.train.numerics import cast, dtype_of
from bitspike.train.optim import load_optimizer, optimizer_state
from bitspike.train.origin import Origin
from bitspike.train.progress import Ending, Listener, Progress, driven
from bitspike.train.restore import progress_from, require_alike, require_optimizer, require_silent, require_state
from bitspike.train.run_folder import Board, Row, RunFolder
from bitspike.train.tasks import Task
from bitspike.train.tricks.recalibrate import recalibrate
from bitspike.train.world import World

__all__ = ["Listener", "Progress", "Trainer"]


class Trainer:
    """Trains `net` on `samples`, choosing the best epoch by its accuracy on `chooser`, or the last (`train.choose`)."""

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
        origin: Origin = Origin(),  # noqa: B008
        world: World = World(),  # noqa: B008
        listener: Listener = Listener(),  # noqa: B008
        graph: bool = True,
    ) -> None:
        self.device = samples.labels.device
        self.net = net.to(device=self.device, dtype=dtype_of(config.precision))
        self.annealing = ThresholdAnnealing(self.net, schedules)  # after the cast: thresholds are written exactly
        self.task = task
        self.samples, self.chooser = samples, chooser
        self.config = config
        self.folder = folder
        self.identity, self.origin = identity, origin
        self.world, self.listener = world, listener
        self.chosen_on = "test" if config.protocol == "paper" else "valid"
        self.progress = Progress()
        self.silent = SilentLayers(self.net.neuron_names())
        self.observed: Observed | None = None  # of the last iteration
        self._saved_at = self._counted_to = time.perf_counter()
        if min(len(samples), len(chooser), config.batch) < world.size:
            raise ValueError(f"train: {world.size} processes need at least as many samples and a batch of as many")
        self.work = Iteration(
            self.net, self.annealing, task, samples, config, seed=seed, repeat=repeat, world=world, graph=graph
        )
        self.optimizer, self.bad, self.sums = self.work.optimizer, self.work.bad, self.work.sums
        self._expects_graph = graph and self.device.type == "cuda"
        self._joint: Captured[Any] | None = None
        self._graph_before: bool | str | None = None  # what `graph` was in the joint step that it has left

    @property
    def _captured(self) -> Captured[Any]:
        return self._joint or self.work.captured

    @property
    def graph(self) -> bool | str:
        """True if iterations are replayed from a CUDA graph; else why not."""
        if self._graph_before is not None:
            return self._graph_before
        return self._captured.recorded or self._captured.reason or "too few iterations to record one"

    def join(self, joint: Captured[Any]) -> None:
        """From now on `joint` makes its iterations, together with those of other trainers."""
        self._joint, self._graph_before = joint, None

    def leave(self) -> None:
        """Hold nothing of the joint step any more, so that its memory can be freed."""
        self._graph_before = self.graph
        self._joint = self.observed = None
        self.optimizer.zero_grad(set_to_none=True)

    # One iteration

    def begin_epoch(self) -> None:
        """Get ready for the rest of the epoch in work, or the next if that is over; `step()` then takes iterations."""
        progress = self.progress
        if progress.iteration >= self.work.count:
            progress.epoch, progress.iteration = progress.epoch + 1, 0
            self.sums.zero_()
        self.work.begin(progress.epoch, progress.iteration, progress.step)

    def step(self, count: int = 1) -> None:
        """`count` iterations: forward, backward, clips, optimizer, thresholds; `observed` is what the last one saw."""
        progress = self.progress
        if progress.iteration + count > self.work.count:
            left = self.work.count - progress.iteration
            raise ValueError(f"Trainer: {left} iterations of the epoch are left, but step({count}); call begin_epoch()")
        for _ in range(count):
            self.observed = None  # frees its memory for the next, and in autograd the streams it was made on
            self.took(self.work.run(progress.iteration, progress.step))

    def took(self, observed: Observed) -> None:
        """An iteration was made, and saw this."""
        self.observed = observed
        self.annealing.passed()
        self.progress.step += 1
        self.progress.iteration += 1

    def train_epoch(self) -> bool:
        """The rest of the epoch in work; False if it was interrupted (and saved)."""
        return driven(self._epoch(), partial(self.step, 1))

    def _epoch(self) -> Generator[None, None, bool]:
        """`train_epoch`, but each time it yields, whoever drives it makes the next iteration."""
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
        """Once, and only where one could be expected."""
        if self._expects_graph and (reason := self._captured.reason) is not None:
            self.listener.note(f"iterations are launched one by one, not as a CUDA graph: {reason}")
            self._expects_graph = False

    def _watch(self) -> dict[str, Any]:
        """Loss, accuracy, dead share and spikes of this batch, on this process, in one transfer."""
        if self.observed is None:
            raise RuntimeError("Trainer: no iteration has been made yet; call step() first")
        with torch.no_grad():
            layers = self.observed.counts()
            seen = [fired(counts) for counts in layers]
            dead = torch.stack([1 - alive.double().mean() for alive, _ in seen])
            spikes = torch.stack([count for _, count in seen]) / max(len(layers[0]), 1)
            thetas = torch.stack(self._thetas()).double()
            figures = torch.cat((self.sums, dead, spikes, thetas)).tolist()
        (loss, right, count), rest, n = figures[:3], figures[3:], len(layers)
        count = count or 1  # where other processes hold all samples since the last checkpoint
        if self.world.size == 1:
            self._notice_silence(rest[:n], whole=False)
        return {
            "loss": loss / count,
            "accuracy": right / count,
            "dead": rest[:n],
            "spikes": rest[n : 2 * n],
            "theta": rest[2 * n :],
        }

    def _thetas(self) -> list[Tensor]:
        return [self.net.get_buffer(f"{name}.theta") for name in self.net.neuron_names()]

    def thetas(self) -> list[float]:
        """Of every neuron layer, now."""
        now: list[float] = torch.stack(self._thetas()).tolist()
        return now

    # Epochs

    def run(self) -> Ending:
        """Until the epochs are over, patience is, or the run is stopped."""
        return driven(self.course(), partial(self.step, 1))

    def course(self) -> Generator[None, None, Ending]:
        """`run`, but each time it yields, whoever drives it makes the next iteration; its errors belong in here."""
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
                if not (yield from self._epoch()):
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
            set_dropout_key(self.net, None)
            if board is not None:
                board.close()

    def _end_epoch(self, began: float) -> Row:
        progress = self.progress
        self.world.sum_(self.sums)
        loss, right, count = self.sums.tolist()
        trained = time.perf_counter()
        result = self.evaluate(self.chooser)
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
                "data_share": None if self._captured.recorded else self.work.watch.seconds() / (trained - began),
            },
        }
        self._notice_silence(result.dead, whole=True)
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
        best = self._pack_best() if chosen and self.world.first else None
        # The checkpoint first: it is what the other files are made good by (`_make_good`), wherever a write fails.
        self.save()
        if best is not None:
            best.write(self.folder.best)
        if self.world.first:
            self.folder.add_metrics(row)
        self.listener.epoch_ends(row)
        return row

    def evaluate(self, samples: Samples) -> Evaluation:
        """With the thresholds of now or the final ones, as the experiment says.

        Batch norm has new statistics from then on, where the experiment wants it: nothing in training reads them.
        """
        config = self.config
        set_shard(self.net, None)
        start, stop = self.world.share(len(samples))
        batch = evaluation_batch(config.evaluate_batch, samples)
        tick = self.listener.evaluation_begins(-(-(stop - start) // batch))
        with cast(config.precision, self.device), self._as_judged():
            recalibrate(self.net, self.samples, config.recalibrate, seed=self.work.seed)
            return evaluate(self.net, samples, self.task, batch=batch, world=self.world, on_batch=tick)

    def _pack_best(self) -> PackedWeights:
        """The network of the epoch that has just ended, as it was judged; the checkpoint is to know its digest."""
        row = self.progress.rows[-1]
        metadata = {
            "notation": self.net.notation,
            "input_shape": list(self.net.input_shape),
            "epoch": row["epoch"],
            "accuracy": row[f"{self.chosen_on}_accuracy"],
            "accuracy_on": self.chosen_on,
            "settings": dict(self.origin.settings),
            "samples": dict(self.origin.samples),
        }
        with self._as_judged():
            packed = pack_weights(self.net, metadata)
        self.progress.best_digest = packed.digest
        return packed

    @contextmanager
    def _as_judged(self) -> Iterator[None]:
        """The network as evaluations see it and the best is saved."""
        with ExitStack() as changed:
            if self.config.evaluate_theta == "final":
                changed.enter_context(self.annealing.finish())
            yield

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
        self.warn(otherwise if bad is None else nan_message(*bad, self.work.learning_rate(bad[1])))

    def _notice_silence(self, dead: list[float], *, whole: bool) -> None:
        new = self.silent.look(dead, self.progress.step, whole=whole)
        schedules, thetas = (self.annealing.schedules(), self.annealing.thresholds()) if new else ({}, {})
        messages = [
            dead_message(name, self.silent.since[name], thetas[name], schedules[name].final, schedules[name](0))
            for name in new[:MOST_NAMED]
        ]
        for message in messages if len(new) <= MOST_NAMED else [dead_layers_message(new, messages[0])]:
            self.warn(message)

    def warn(self, message: str) -> None:
        """Tell the listener, and write it into the summary; once."""
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
            self.world.sum_(self.sums)
            if not self.world.first:
                self.sums.zero_()
        if not self.world.first:
            return
        progress = self.progress
        state = {name: getattr(progress, name) for name in Progress.__slots__}
        save_checkpoint(
            self.folder.last,
            {
                "identity": self.identity,
                "samples": dict(self.origin.samples),
                "net": self.net.state_dict(),
                "optimizer": optimizer_state(self.optimizer),
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
        self._require_same_run(state)
        try:
            self._restore(state)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise ValueError(f"{self.folder.last} does not fit this experiment: {error}") from None
        if not self.world.first:
            self.sums.zero_()
        self.work.forget()
        if self.progress.epoch + (self.progress.iteration > 0) > self.config.epochs:
            self._go_back(self.config.epochs)
        elif self.progress.best_epoch:
            self._make_good()

    def _require_same_run(self, state: Mapping[str, Any]) -> None:
        """The checkpoint is of this experiment, on these samples."""
        saved = state.get("samples")
        if saved is not None and (changed := self.origin.changed(saved)):
            raise ValueError(
                f"{self.folder.last} belongs to another experiment: {changed} replaced since the run began; "
                "put the old data back, or choose another --out"
            )
        if state.get("identity") != (self.origin.identity_before if saved is None else self.identity):
            raise ValueError(
                f"{self.folder.last} belongs to another experiment (settings or data); choose another --out"
            )
        if saved is None and self.origin.samples:
            self.listener.note(
                f"{self.folder.last} is of an earlier version and does not say what its samples held; "
                "they are taken to be the same"
            )

    def _restore(self, state: Mapping[str, Any]) -> None:
        names, step = self.net.neuron_names(), state["annealing"]["step"]
        progress = progress_from(state["progress"], self.work.count, len(names), self.chosen_on)
        if step != progress.step:
            raise ValueError(f"annealing.step must be {progress.step}, but is {step!r}")
        self.net.load_state_dict(require_state("net", state["net"], self.net.state_dict()))
        moved = [p for group in self.optimizer.param_groups for p in group["params"]]
        load_optimizer(self.optimizer, require_optimizer(state["optimizer"], moved, progress.step))
        self.annealing.load_state_dict(state["annealing"])
        self.sums.copy_(require_alike("sums", state["sums"], self.sums))
        self.bad.first.copy_(require_alike("first_bad", state["first_bad"], self.bad.first))
        self.silent.load(require_silent(state["silent"], names))
        self.progress = progress

    # The best epoch's network

    def _make_good(self) -> None:
        """See to it that best.safetensors is of the checkpoint's best epoch.

        A process that was stopped between the two writes has left an older one: then the checkpoint is of that epoch's
        end, and holds its network.
        """
        progress, info = self.progress, self._saved_best()
        if info is not None and self._is_best(info):
            return
        if progress.best_epoch == progress.epoch and not progress.iteration:
            if self.world.first:
                self._pack_best().write(self.folder.best)
        elif info is None or not progress.epoch < info.epoch <= self.config.epochs:
            # earlier versions wrote it before the checkpoint: then its epoch is made again
            raise self._not_best(info)

    def _go_back(self, epochs: int) -> None:
        """Report the first `epochs` only, as fewer are asked for than are done; last.ckpt stays as it is."""
        progress, info = self.progress, self._saved_best()
        done, rows = progress.epoch, progress.rows[:epochs]
        on = self.chosen_on
        best = max(rows, key=lambda row: (row[f"{on}_accuracy"], -row[f"{on}_loss"]))  # the first among equals
        if self.config.choose == "last":
            best = rows[-1]
        if progress.best_epoch <= epochs:
            self._make_good()
        elif info is None or info.epoch != best["epoch"]:
            raise ValueError(
                f"{self.folder.path} has done {done} epochs, and the network of epoch {best['epoch']}, the chosen of "
                f"the first {epochs}, is no longer there; give --epochs {max(done, epochs + 1)} or more"
            )
        else:
            progress.best_epoch, progress.best_digest = info.epoch, info.digest or ""
            progress.best_accuracy, progress.best_loss = best[f"{on}_accuracy"], best[f"{on}_loss"]
        if done > epochs:
            self.listener.note(f"{self.folder.path} has done {done} epochs; only the first {epochs} are asked for")
        progress.epoch, progress.iteration, progress.step, progress.rows = epochs, 0, rows[-1]["step"], rows
        progress.improved_epoch = min(progress.improved_epoch, epochs)
        self.bad.first.masked_fill_(self.bad.first >= progress.step, -1)

    def load_best(self) -> None:
        """The chosen epoch's weights and thresholds into the network, if best.safetensors holds them."""
        info = weights_info(self.folder.best)
        if not self._is_best(info):
            raise self._not_best(info)
        load_weights(self.folder.best, self.net)

    def _saved_best(self) -> WeightsInfo | None:
        """None where there is no best.safetensors, or none that can be read."""
        try:
            info = weights_info(self.folder.best)
            return info if info.epoch else None
        except (FileNotFoundError, ValueError):
            return None

    def _is_best(self, info: WeightsInfo) -> bool:
        digest = self.progress.best_digest
        return info.epoch == self.progress.best_epoch and digest in ("", info.digest)

    def _not_best(self, info: WeightsInfo | None) -> ValueError:
        found = "is not there or damaged" if info is None else f"is of epoch {info.epoch} or of another run"
        return ValueError(
            f"{self.folder.best} {found}, but the best in {self.folder.last.name} is epoch {self.progress.best_epoch}; "
            f"put the right one back, or delete {self.folder.last.name} to start from the beginning"
        )
