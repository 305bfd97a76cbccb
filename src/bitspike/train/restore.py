"""Checks of a checkpoint: nothing in it is used before it fits the run that goes on with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bitspike.train.progress import Progress
from bitspike.train.run_folder import Row

# The state that Adam, AdamW and SGD keep for a parameter.
_MOMENTS = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer"}


def require_alike(name: str, saved: object, own: Tensor) -> Tensor:
    """Return the saved tensor; raise unless it has the dtype and shape of `own`."""
    if not isinstance(saved, Tensor):
        raise ValueError(f"{name} must be a tensor, but is a {type(saved).__name__}")
    if (saved.shape, saved.dtype, saved.layout) != (own.shape, own.dtype, torch.strided):
        raise ValueError(
            f"{name} must be {own.dtype} of shape {list(own.shape)}, but is {saved.dtype} of shape {list(saved.shape)}"
        )
    return saved


def require_state(name: str, saved: object, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the saved tensors; raise unless there is one for each of `own`, of its dtype and shape."""
    if not isinstance(saved, dict) or saved.keys() != own.keys():
        raise ValueError(f"{name} must hold {', '.join(own)}")
    return {key: require_alike(f"{name}.{key}", saved[key], tensor) for key, tensor in own.items()}


def require_optimizer(saved: object, parameters: Sequence[Tensor], step: int) -> dict[str, Any]:
    """Return the saved optimizer; raise unless its moments fit the parameters, after at most `step` iterations.

    `parameters` are in the order of the optimizer's groups.
    """
    known = saved if isinstance(saved, dict) else {}
    state, groups = known.get("state"), known.get("param_groups")
    if not isinstance(state, dict) or not isinstance(groups, list):
        raise ValueError("optimizer must hold its state and groups of parameters")
    members = [index for group in groups for index in group["params"]]
    if members != list(range(len(parameters))):
        raise ValueError(f"optimizer must be that of {len(parameters)} parameters")
    for index, kept in state.items():
        if type(index) is not int or not 0 <= index < len(parameters) or not isinstance(kept, dict):
            raise ValueError(f"optimizer keeps something of parameter {index!r}, which is none")
        for name, value in kept.items():
            _require_kept(f"optimizer.{index}.{name}", name, value, parameters[index], step)
    return known


def _require_kept(where: str, name: str, value: object, parameter: Tensor, step: int) -> None:
    if name == "step":
        count = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
        if isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count <= step:
            raise ValueError(f"{where} must be a number of iterations up to {step}, but is {count!r}")
    elif name not in _MOMENTS:
        raise ValueError(f"{where} is not known")
    elif value is not None:
        require_alike(where, value, parameter)


def progress_from(saved: object, iterations: int, layers: int, chosen_on: str) -> Progress:
    """Return the saved progress; raise unless all counts agree, with `iterations` in an epoch."""
    if not isinstance(saved, dict):
        raise ValueError("progress must be a table")
    progress = Progress(**saved)
    for name in ("epoch", "iteration", "step", "best_epoch", "improved_epoch"):
        value = getattr(progress, name)
        if type(value) is not int or value < 0:
            raise ValueError(f"progress.{name} must be a whole number >= 0, but is {value!r}")
    if progress.iteration > iterations or progress.step != progress.epoch * iterations + progress.iteration:
        raise ValueError(
            f"progress.step must be {progress.epoch} epochs of {iterations} iterations and {progress.iteration}, "
            f"but is {progress.step}"
        )
    if max(progress.best_epoch, progress.improved_epoch) > progress.epoch:
        raise ValueError(f"progress.best_epoch must be one of {progress.epoch} epochs, but is {progress.best_epoch}")
    for name in ("best_accuracy", "best_loss", "seconds"):
        if not _number(getattr(progress, name)):
            raise ValueError(f"progress.{name} must be a number, but is {getattr(progress, name)!r}")
    if not math.isfinite(progress.seconds) or not isinstance(progress.best_digest, str):
        raise ValueError("progress.seconds and progress.best_digest must be a finite number and a string")
    for name, kind in (("rows", dict), ("warnings", str)):
        values = getattr(progress, name)
        if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
            raise ValueError(f"progress.{name} must be a list of {kind.__name__}")
    if "warned_at" not in saved:  # of an earlier version: such warnings are kept, whatever is cut
        progress.warned_at = [0] * len(progress.warnings)
    steps = progress.warned_at
    fits = isinstance(steps, list) and len(steps) == len(progress.warnings)
    if not fits or not all(type(step) is int and 0 <= step <= progress.step for step in steps):
        raise ValueError(f"progress.warned_at must be an iteration up to {progress.step} for each warning")
    if len(progress.rows) != progress.epoch:
        raise ValueError(f"progress.rows must be a row for each of {progress.epoch} epochs, not {len(progress.rows)}")
    for number, row in enumerate(progress.rows, 1):
        _require_row(row, number, iterations, layers, chosen_on)
    return progress


def _require_row(row: Row, epoch: int, iterations: int, layers: int, chosen_on: str) -> None:
    numbers = [f"{which}_{what}" for which in ("train", chosen_on) for what in ("loss", "accuracy")]
    fits = row.get("epoch") == epoch and row.get("step") == epoch * iterations
    fits = fits and all(_number(row.get(key)) for key in (*numbers, "lr"))
    for key in ("theta", "dead", "spikes"):
        values = row.get(key)
        fits = fits and isinstance(values, list) and len(values) == layers and all(map(_number, values))
    if not fits:
        raise ValueError(f"progress.rows: the row of epoch {epoch} does not hold what a row holds")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def require_silent(saved: object, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the saved state of `SilentLayers`; raise unless it holds whole numbers and names of these layers."""
    known = saved if isinstance(saved, dict) else {}
    for key in ("since", "streak"):
        table = known.get(key)
        if not isinstance(table, dict) or not all(n in names and type(v) is int for n, v in table.items()):
            raise ValueError(f"silent.{key} must be whole numbers by layer")
    reported = known.get("reported")
    if not isinstance(reported, list) or not all(name in names for name in reported):
        raise ValueError("silent.reported must be a list of layers")
    return known
