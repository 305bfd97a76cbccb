"""The network of the chosen epoch, best.safetensors: write it, load it, and check that it fits the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitspike.train.checkpoint import PackedWeights, WeightsInfo, load_weights, pack_weights, weights_info

if TYPE_CHECKING:
    from bitspike.train.loop import Trainer


def pack_best(trainer: Trainer) -> PackedWeights:
    """Pack the network of the epoch that has just ended, as it was evaluated; note its digest in the progress."""
    row = trainer.progress.rows[-1]
    metadata = {
        "notation": trainer.net.notation,
        "input_shape": list(trainer.net.input_shape),
        "epoch": row["epoch"],
        "accuracy": row[f"{trainer.chosen_on}_accuracy"],
        "accuracy_on": trainer.chosen_on,
        "settings": dict(trainer.origin.settings),
        "samples": dict(trainer.origin.samples),
    }
    with trainer.as_judged():
        packed = pack_weights(trainer.net, metadata)
    trainer.progress.best_digest = packed.digest
    return packed


def load_best(trainer: Trainer) -> None:
    """Load the chosen epoch's weights and thresholds; raise ValueError if best.safetensors holds others."""
    info = weights_info(trainer.folder.best)
    if not _is_best(trainer, info):
        raise _not_best(trainer, info)
    load_weights(trainer.folder.best, trainer.net)


def repair_best(trainer: Trainer) -> None:
    """Make sure that best.safetensors holds the checkpoint's best epoch.

    A process that was stopped between the two writes has left an older file. The checkpoint was then written at the end
    of the best epoch, and holds its network.
    """
    progress, info = trainer.progress, _saved_best(trainer)
    if info is not None and _is_best(trainer, info):
        return
    if progress.best_epoch == progress.epoch and not progress.iteration:
        if trainer.world.first:
            pack_best(trainer).write(trainer.folder.best)
    elif info is None or not progress.epoch < info.epoch <= trainer.config.epochs:
        # earlier versions wrote it before the checkpoint: then its epoch is made again
        raise _not_best(trainer, info)


def go_back(trainer: Trainer, epochs: int) -> None:
    """Cut the report to the first `epochs` epochs of a run that has done more; last.ckpt stays as it is."""
    progress, folder, info = trainer.progress, trainer.folder, _saved_best(trainer)
    done, rows = progress.epoch, progress.rows[:epochs]
    on = trainer.chosen_on
    best = max(rows, key=lambda row: (row[f"{on}_accuracy"], -row[f"{on}_loss"]))  # the first among equals
    if trainer.config.choose == "last":
        best = rows[-1]
    if progress.best_epoch <= epochs:
        repair_best(trainer)
    elif info is None or info.epoch != best["epoch"]:
        raise ValueError(
            f"{folder.path} has done {done} epochs, and the network of epoch {best['epoch']}, the chosen of "
            f"the first {epochs}, is no longer there; give --epochs {max(done, epochs + 1)} or more"
        )
    else:
        progress.best_epoch, progress.best_digest = info.epoch, info.digest or ""
        progress.best_accuracy, progress.best_loss = best[f"{on}_accuracy"], best[f"{on}_loss"]
    if done > epochs:
        trainer.listener.note(f"{folder.path} has done {done} epochs; only the first {epochs} are asked for")
    progress.epoch, progress.iteration, progress.step, progress.rows = epochs, 0, rows[-1]["step"], rows
    progress.improved_epoch = min(progress.improved_epoch, epochs)
    trainer.bad.first.masked_fill_(trainer.bad.first >= progress.step, -1)
    trainer.silent.go_back(rows[-1]["dead"])
    kept = [row for row, at in enumerate(progress.warned_at) if at <= progress.step]
    progress.warnings = [progress.warnings[row] for row in kept]
    progress.warned_at = [progress.warned_at[row] for row in kept]


def _saved_best(trainer: Trainer) -> WeightsInfo | None:
    """Return the metadata of best.safetensors; None if the file is missing or cannot be read."""
    try:
        info = weights_info(trainer.folder.best)
        return info if info.epoch else None
    except (FileNotFoundError, ValueError):
        return None


def _is_best(trainer: Trainer, info: WeightsInfo) -> bool:
    digest = trainer.progress.best_digest
    return info.epoch == trainer.progress.best_epoch and digest in ("", info.digest)


def _not_best(trainer: Trainer, info: WeightsInfo | None) -> ValueError:
    folder = trainer.folder
    found = "is not there or damaged" if info is None else f"is of epoch {info.epoch} or of another run"
    return ValueError(
        f"{folder.best} {found}, but the best in {folder.last.name} is epoch {trainer.progress.best_epoch}; "
        f"put the right one back, or delete {folder.last.name} to start from the beginning"
    )
