"""`bitspike reproduce static`: the cells of the paper's MNIST and FashionMNIST table, and ablations of its last row."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bitspike.experiments.assembly import Setting, differences
from bitspike.experiments.presets import VARIANTS, preset
from bitspike.experiments.runs import train_trials
from bitspike.experiments.schema import Experiment, Rise, Threshold, read_experiment, with_values
from bitspike.experiments.settings import parse_setting

Protocol = Literal["paper", "holdout"]
PROTOCOLS: tuple[Protocol, ...] = ("paper", "holdout")
TASKS = ("mnist", "fashion")
BEST = "best"  # a row beside the paper's, trained when asked for
BASE = "annealed"  # the variant that ablations change


@dataclass(frozen=True, slots=True)
class Ablation:
    """One change of the annealed cell: the `--set` settings it stands for, none where it does not apply."""

    name: str
    sentence: str
    settings: Callable[[Experiment], list[str]]


def _thresholds(end: Literal["start", "stop"]) -> Callable[[Experiment], list[str]]:
    """Every annealed threshold held at one of its ends."""

    def held(theta: Threshold) -> float:
        return float(getattr(theta, end)) if isinstance(theta, Rise) else theta

    def settings(spec: Experiment) -> list[str]:
        theta = spec.net.theta
        return [f"net.theta={[held(each) for each in theta] if isinstance(theta, list) else held(theta)}"]

    return settings


def _times_steps(spec: Experiment) -> list[str]:
    """The learning rate that makes SGD's step as large as a loss that is summed over T would; Adam's does not change.

    Rounded to 12 digits: a product in binary is not the number that a person would write.
    """
    return [f"train.lr={spec.train.lr * spec.net.steps:.12g}"] if spec.train.optimizer == "sgd" else []


ABLATIONS = {
    each.name: each
    for each in (
        Ablation(
            "moving",
            "the surrogate moves with theta, as in the released code, instead of staying at theta_0",
            lambda spec: ["net.surrogate_center=current"],
        ),
        Ablation("at-inf", "thresholds are theta_inf from the start", _thresholds("stop")),
        Ablation("at-0", "thresholds stay at theta_0", _thresholds("start")),
        Ablation(
            "pooled",
            "batch norm takes its statistics over all time steps instead of each step's",
            lambda spec: ["net.norm=shared"],
        ),
        Ablation(
            "recalibrated",
            "batch norm's statistics are measured again, on 5120 training samples, before each evaluation",
            lambda spec: ["train.recalibrate=5120"],
        ),
        Ablation(
            "loss-not-over-T", "the loss is not divided by T (SGD: the learning rate is T times larger)", _times_steps
        ),
        Ablation("adam", "Adam instead of SGD, at the same rate", lambda spec: ["train.optimizer=adam"]),
        Ablation("no-dropout", "nothing is dropped", lambda spec: ["net.dropout=0"]),
        Ablation(
            "moving-no-dropout",
            "the surrogate moves with theta, and nothing is dropped",
            lambda spec: ["net.surrogate_center=current", "net.dropout=0"],
        ),
        Ablation(
            "torch-init",
            "weights start as PyTorch draws them, as the text says, instead of the released code's smaller ones",
            lambda spec: ["net.init=torch"],
        ),
        Ablation(
            "weight-clip",
            "every parameter is held in [-1, 1], as in the theta = 1 cells",
            lambda spec: ["train.weight_clip=1.0"],
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the table under one protocol, or an ablation of it: what to train, and how many times."""

    protocol: Protocol
    task: str
    name: str
    spec: Experiment
    trials: int

    def folder(self, out: Path) -> Path:
        """Where its trials are."""
        return out / self.protocol / self.task / self.name


def plan(
    *,
    protocols: Sequence[Protocol] = ("paper",),
    tasks: Sequence[str] = TASKS,
    variants: Sequence[str] = VARIANTS,
    ablations: bool = False,
    trials: int = 5,
    ablation_trials: int = 3,
    settings: Sequence[str] = (),
) -> list[Cell]:
    """The cells to train, in the table's order; `settings` (key=value) hold for all of them."""
    if trials < 1 or ablation_trials < 1:
        raise ValueError(f"reproduce static: trials must be 1 or more, but are {trials} and {ablation_trials}")
    for setting in settings:
        if parse_setting(setting)[0] == "train.protocol":
            raise ValueError(f"reproduce static: --set {setting}: protocols have folders of their own; use --protocol")
    cells = []
    for protocol in dict.fromkeys(protocols):
        for task in dict.fromkeys(tasks):
            common = [*settings, f"train.protocol={protocol}"]
            for name in dict.fromkeys(variants):
                cells.append(Cell(protocol, task, name, with_values(preset(f"{task}/{name}"), common), trials))
            if ablations:
                base = with_values(preset(f"{task}/{BASE}"), common)
                changed = [(each.name, with_values(base, each.settings(base))) for each in ABLATIONS.values()]
                cells += [
                    Cell(protocol, task, name, spec, ablation_trials)
                    for name, spec in changed
                    if differences(base, spec)  # --set may have made it already
                ]
    return cells


def check(cells: Sequence[Cell], out: Path) -> None:
    """Stop before anything trains where a cell's folder holds runs of another experiment."""
    for cell in cells:
        for trial in range(cell.trials):
            made = cell.folder(out) / f"trial-{trial}" / "experiment.toml"
            if not made.is_file():
                continue
            asked = cell.spec.model_copy(update={"seed": cell.spec.seed + trial})
            if changed := differences(read_experiment(made), asked):
                raise ValueError(
                    f"{made.parent} holds another experiment: {'; '.join(changed[:4])}; choose another --out, "
                    "or repeat the --set it was made with"
                )


def train_cells(
    cells: Sequence[Cell],
    out: Path,
    told: Callable[[Cell], AbstractContextManager[Setting]],
    after: Callable[[Setting], object] = lambda setting: None,
) -> bool:
    """Train what is not trained yet, cell after cell; False if it was interrupted (then it can go on).

    `told` gives the setting of a cell while that trains; `after` is called after each cell in which something was.
    On a GPU a cell's trials are trained side by side.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("reproduce static trains in one process, but torchrun started several; run it without")
    check(cells, out)
    for cell in cells:
        with told(cell) as setting:
            begun: list[Path] = []
            watched = replace(setting, resume=True, started=_noting(setting, begun))
            together = setting.device.type == "cuda" and cell.trials > 1
            if train_trials(cell.spec, cell.folder(out), cell.trials, watched, together=together) is None:
                return False
            if begun:
                after(setting)
            if setting.listener.interrupted() and cell is not cells[-1]:
                return False
    return True


def _noting(setting: Setting, begun: list[Path]) -> Callable[..., object]:
    def started(spec: Experiment, data: Any, net: Any, out: Path) -> None:
        begun.append(out)
        setting.started(spec, data, net, out)

    return started
