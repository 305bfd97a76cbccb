"""The content of last.ckpt, all that the next iteration depends on: taken from a trainer, and restored into one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bitspike.train.best_network import go_back, repair_best
from bitspike.train.checkpoint import load_checkpoint
from bitspike.train.optim import load_optimizer, optimizer_state
from bitspike.train.progress import Progress
from bitspike.train.restore import progress_from, require_alike, require_optimizer, require_silent, require_state

if TYPE_CHECKING:
    from bitspike.train.loop import Trainer


def checkpoint_of(trainer: Trainer) -> dict[str, Any]:
    """Return the content of last.ckpt for a trainer; `tricks` is in it only if one of them has a state."""
    progress = trainer.progress
    tricks = {trick.name: state for trick in trainer.work.tricks if (state := trick.state())}
    return {
        "identity": trainer.identity,
        "samples": dict(trainer.origin.samples),
        "net": trainer.net.state_dict(),
        "optimizer": optimizer_state(trainer.optimizer),
        "annealing": trainer.annealing.state_dict(),
        "progress": {name: getattr(progress, name) for name in Progress.__slots__},
        "sums": trainer.sums,
        "first_bad": trainer.bad.first,
        "silent": trainer.silent.state(),
        **({"tricks": tricks} if tricks else {}),
    }


def resume(trainer: Trainer) -> None:
    """Continue where last.ckpt was written; start from the beginning if there is none."""
    path = trainer.folder.last
    if not path.is_file():
        return
    state = load_checkpoint(path)
    _require_same_run(trainer, state)
    try:
        _restore(trainer, state)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} does not fit this experiment: {error}") from None
    if not trainer.world.first:
        trainer.sums.zero_()
    trainer.work.forget()
    if trainer.progress.epoch + (trainer.progress.iteration > 0) > trainer.config.epochs:
        go_back(trainer, trainer.config.epochs)
    elif trainer.progress.best_epoch:
        repair_best(trainer)


def _require_same_run(trainer: Trainer, state: Mapping[str, Any]) -> None:
    """Raise ValueError unless the checkpoint is of this experiment, on these samples."""
    path, origin = trainer.folder.last, trainer.origin
    saved = state.get("samples")
    if saved is not None and (changed := origin.changed(saved)):
        if origin.own_files and state.get("identity") == trainer.identity:
            raise ValueError(
                f"{path} belongs to another experiment: {changed} come from the same files, but an earlier version "
                f"numbered labels or drew limits otherwise; {origin.another_folder}"
            )
        raise ValueError(
            f"{path} belongs to another experiment: {changed} were changed since the run began (values, labels or "
            f"order); put the old data back, or {origin.another_folder}"
        )
    if state.get("identity") != (origin.identity_before if saved is None else trainer.identity):
        raise ValueError(f"{path} belongs to another experiment (settings or data); {origin.another_folder}")
    if saved is None and origin.samples:
        trainer.listener.note(
            f"{path} is of an earlier version and does not say what its samples held; they are taken to be the same"
        )


def _restore(trainer: Trainer, state: Mapping[str, Any]) -> None:
    """Restore the trainer from `state`, all of which must fit it."""
    names, step = trainer.net.neuron_names(), state["annealing"]["step"]
    progress = progress_from(state["progress"], trainer.work.count, len(names), trainer.chosen_on)
    if step != progress.step:
        raise ValueError(f"annealing.step must be {progress.step}, but is {step!r}")
    trainer.net.load_state_dict(require_state("net", state["net"], trainer.net.state_dict()))
    moved = [p for group in trainer.optimizer.param_groups for p in group["params"]]
    load_optimizer(trainer.optimizer, require_optimizer(state["optimizer"], moved, progress.step))
    trainer.annealing.load_state_dict(state["annealing"])
    trainer.sums.copy_(require_alike("sums", state["sums"], trainer.sums))
    trainer.bad.first.copy_(require_alike("first_bad", state["first_bad"], trainer.bad.first))
    trainer.silent.load(require_silent(state["silent"], names))
    for trick in trainer.work.tricks:
        if own := trick.state():
            saved = require_state(f"tricks.{trick.name}", state["tricks"][trick.name], own)
            for name, tensor in own.items():
                tensor.copy_(saved[name])
    trainer.progress = progress
