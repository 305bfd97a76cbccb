"""From an experiment to a run's folder and back: train, trials, evaluate, load."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from bitspike.data.datasets import Progress, open_dataset
from bitspike.data.samples import Dataset, Samples
from bitspike.data.splits import held_out
from bitspike.experiments.presets import preset, preset_names
from bitspike.experiments.provenance import peak_memory_mb, versions
from bitspike.experiments.schema import Experiment, as_toml, as_values, read_experiment
from bitspike.files import locked, write_text
from bitspike.nn import BinaryLinear, SpikingNetwork, build
from bitspike.train.checkpoint import chosen_accuracy, input_shape, load_weights
from bitspike.train.evaluation import Evaluation, evaluate
from bitspike.train.loop import Listener, Trainer
from bitspike.train.numerics import cast, dtype_of, reproducible
from bitspike.train.run_folder import RunFolder
from bitspike.train.seeds import mixed
from bitspike.train.tasks import CountTask, Task, TraceTask
from bitspike.train.world import World, joined

Split = Literal["train", "valid", "test"]

# What may differ when a run goes on: it decides how long and how visibly, not which numbers.
_FREE = ("train.epochs", "train.patience", "train.checkpoint_minutes", "train.tensorboard", "train.watch_every")


def _quiet(stage: str, steps: int) -> Callable[[], None]:
    return lambda: None


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a run is made; nothing here changes its numbers but the device."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    resume: bool = False
    command: str = "bitspike.experiments.runs"
    data_root: Path | None = None
    listener: Listener = field(default_factory=Listener)
    progress: Progress = _quiet
    started: Callable[[Experiment, Dataset, SpikingNetwork, Path], object] = lambda spec, data, net, out: None


def choose_device(name: str) -> torch.device:
    """ "auto" takes a GPU where there is one; under torchrun each process its own."""
    gpu = torch.cuda.is_available()
    if name == "auto":
        name = "cuda" if gpu else "cpu"
    if name == "cuda" and not gpu:
        raise ValueError("--device cuda: PyTorch sees no GPU here; use --device cpu, or install a CUDA build of torch")
    if name == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        return device
    return torch.device(name)


def build_network(spec: Experiment, input_shape: tuple[int, ...]) -> SpikingNetwork:
    """The experiment's network; a notation that does not fit the input names the token and the size that would."""
    net = spec.net
    return build(
        net.notation,
        input_shape,
        beta=net.beta,
        slope=net.slope,
        binary=net.binary,
        clip=net.clip,
        norm=None if net.norm == "none" else net.norm,
        dropout=net.dropout,
        surrogate_center=net.surrogate_center,
        learn_beta=net.learn_beta,
        recurrent=net.recurrent,
        steps=net.steps,
        init=net.init,
        generator=torch.Generator().manual_seed(mixed(spec.seed, "weights")),
        backend=net.backend,
    )


def check_fit(spec: Experiment, net: SpikingNetwork, data: Dataset) -> None:
    """The network's outputs, thresholds and loss against the data, before anything trains."""
    spec.net.schedules(len(net.layers))
    right = "trace" if spec.data.name == "coding" else "count"
    if spec.train.loss != right:
        raise ValueError(f"train.loss must be {right!r} on {data.title}, but is {spec.train.loss!r}")
    last = net.layers[-1].synapse
    outputs = last.out_features if isinstance(last, BinaryLinear) else 0
    if outputs < data.classes:
        have = f"has {outputs} outputs" if outputs else "does not end in a Dense layer"
        raise ValueError(
            f"net.notation {net.notation!r} {have}, but {data.title} has {data.classes} classes; "
            f"end it in Dense{data.classes}"
        )


def choose_task(spec: Experiment, layers: int) -> Task:
    """Counting spikes, or firing in time."""
    train = spec.train
    if train.loss == "count":
        return CountTask(train.correct, train.incorrect)
    return TraceTask(spec.net.schedules(layers)[-1].final, train.over_time)


def splits(spec: Experiment, data: Dataset) -> dict[Split, Samples]:
    """`paper` trains on all training samples; `holdout` keeps some of each class to choose the model by."""
    if spec.train.protocol == "paper":
        return {"train": data.train, "test": data.test}
    if spec.data.validation_share == 0:
        raise ValueError(
            "data.validation_share is 0, but train.protocol = 'holdout' chooses the model by these samples"
        )
    kept, held = held_out(data.train.labels, spec.data.validation_share, spec.data.split_seed)
    if not len(held):
        raise ValueError(
            f"train.protocol = 'holdout' needs two training samples of a class to hold one out, but {data.title} has "
            f"{len(data.train)} in all; use train.protocol = 'paper'"
        )
    return {"train": data.train.select(kept), "valid": data.train.select(held), "test": data.test}


def identity(spec: Experiment, data: Dataset) -> str:
    """A digest of all that decides the numbers."""
    values = as_values(spec)
    for key in (*_FREE, "name", "title", "paper", "sources"):
        table, _, name = key.rpartition(".")
        (values[table] if table else values).pop(name, None)
    text = json.dumps([values, data.edition], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(a: Experiment, b: Experiment, free: Sequence[str] = _FREE) -> list[str]:
    """The fields in which two experiments give other numbers; those in `free` may differ."""

    def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        return found

    first, second = (
        flat({k: v for k, v in as_values(x).items() if k not in ("sources", "paper", "title", "name")}) for x in (a, b)
    )
    return [
        f"{key} was {first.get(key)!r}, is {second.get(key)!r}"
        for key in sorted(first.keys() | second.keys())
        if key not in free and first.get(key) != second.get(key)
    ]


def _alone(folder: RunFolder, world: World) -> AbstractContextManager[None]:
    """The folder is this run's until it ends; the first process holds it for all."""

    def busy() -> None:
        raise ValueError(f"{folder.path} is in use by another process; wait for it, or choose another --out")

    return locked(folder.lock, busy) if world.first else nullcontext()


def _prepare(spec: Experiment, folder: RunFolder, setting: Setting, world: World) -> dict[str, Any] | None:
    """The folder ready for the run; the summary of one that is complete already."""
    there = folder.experiment.is_file()
    strange = folder.path.is_dir() and set(folder.path.iterdir()) - {folder.lock, *folder.partial()}
    if strange and not there and world.first:
        if (folder.path / "trial-0").is_dir():
            raise ValueError(f"{folder.path} holds trials; give --trials to go on with them, or choose another --out")
        raise ValueError(f"{folder.path} is not empty and holds no run; choose another --out")
    if there and not setting.resume:
        raise ValueError(f"{folder.path} holds a run already; add --resume to go on with it, or choose another --out")
    if there:
        before = read_experiment(folder.experiment)
        changed = differences(before, spec)
        if changed:
            raise ValueError(
                f"{folder.path} holds another experiment: {'; '.join(changed[:4])}; choose another --out, "
                "or repeat the --set it was made with"
            )
        done = folder.read_summary()
        if done is not None and not _may_go_on(done, before, spec):
            return done
    return None


def _may_go_on(done: Mapping[str, Any], before: Experiment, spec: Experiment) -> bool:
    """A complete run has more to do if it now may take more epochs, or wait longer for a better one."""
    if done["ended"] == "patience":
        longer = spec.train.patience is None or spec.train.patience > (before.train.patience or 0)
        return longer and int(done["epochs"]) < spec.train.epochs
    return done["ended"] == "epochs" and int(done["epochs"]) < spec.train.epochs


def _begin(spec: Experiment, folder: RunFolder, world: World) -> None:
    """Write down what is about to be trained; only now, so that a run which could not begin leaves nothing."""
    world.wait()
    if world.first:
        for left in folder.partial():
            left.unlink(missing_ok=True)
        folder.summary.unlink(missing_ok=True)  # a run that goes on is not complete
        write_text(
            folder.experiment,
            as_toml(spec, f"bitspike {versions()['bitspike']}; run again with: bitspike train experiment.toml"),
        )


def train_run(spec: Experiment, out: Path, setting: Setting) -> dict[str, Any] | None:
    """Train one network; gives what summary.json holds, or None if it was interrupted (then it can be resumed)."""
    with joined(setting.device) as world:
        return _train(spec, out, setting, world)


def _train(spec: Experiment, out: Path, setting: Setting, world: World) -> dict[str, Any] | None:
    folder = RunFolder(out)
    with reproducible(spec.train.precision):
        done = _prepare(spec, folder, setting, world)
        if done is not None:
            return done
        data = open_dataset(spec.data, root=setting.data_root, progress=setting.progress, seed=spec.seed)
        net = build_network(spec, data.shape)
        check_fit(spec, net, data)
        parts = {name: part.to(setting.device) for name, part in splits(spec, data).items()}
        chooser = parts["test" if spec.train.protocol == "paper" else "valid"]
        trainer = Trainer(
            net,
            spec.net.schedules(len(net.layers)),
            choose_task(spec, len(net.layers)),
            parts["train"],
            chooser,
            spec.train,
            folder,
            seed=spec.seed,
            repeat=spec.data.repeat,
            identity=identity(spec, data),
            world=world,
            listener=setting.listener,
        )
        with _alone(folder, world):
            if (done := _prepare(spec, folder, setting, world)) is not None:  # another may have been here since
                return done
            if setting.resume:
                trainer.resume()
            _begin(spec, folder, world)
            if world.first:
                setting.started(spec, data, net, out)
            ended = trainer.run()
            if ended == "interrupted":
                return None
            return _summarize(spec, data, trainer, parts["test"], ended, setting, world)


def _summarize(
    spec: Experiment, data: Dataset, trainer: Trainer, test: Samples, ended: str, setting: Setting, world: World
) -> dict[str, Any]:
    progress, folder = trainer.progress, trainer.folder
    world.wait()
    began = time.perf_counter()
    result = _test(spec, trainer, test, setting, world) if progress.best_epoch else None
    names = trainer.net.neuron_names()
    summary: dict[str, Any] = {
        "experiment": spec.name,
        "data": data.title,
        "edition": data.edition,
        "protocol": spec.train.protocol,
        "accuracy": result.accuracy if result else None,
        "accuracy_of": f"test set, best epoch by {'test' if spec.train.protocol == 'paper' else 'validation'} accuracy",
        "best_epoch": progress.best_epoch,
        f"{trainer.chosen_on}_accuracy": progress.best_accuracy if result else None,
        "test_loss": result.loss if result else None,
        "epochs": progress.epoch,
        "steps": progress.step,
        "ended": ended,
        "warnings": progress.warnings,
        "dead": dict(zip(names, result.dead, strict=True)) if result else None,
        "spikes": dict(zip(names, result.spikes, strict=True)) if result else None,
        "theta": trainer.annealing.thresholds(),
        "samples": {"train": len(trainer.samples), trainer.chosen_on: len(trainer.chooser), "test": len(test)},
        "parameters": sum(p.numel() for p in trainer.net.parameters()),
        "seed": spec.seed,
        "paper": as_values(spec.paper) if spec.paper else None,
        "unlike_preset": unlike_preset(spec, data),
        "command": setting.command,
        "versions": versions(),
        "device": str(setting.device),
        "processes": world.size,
        "seconds": round(progress.seconds, 3),
        "test_seconds": round(time.perf_counter() - began, 3),
        "peak_memory_mb": peak_memory_mb(setting.device),
    }
    if world.first:
        folder.write_summary(summary)
    return summary


def _test(spec: Experiment, trainer: Trainer, test: Samples, setting: Setting, world: World) -> Evaluation:
    """The best epoch's network on the test samples, with the thresholds that it was chosen with."""
    load_weights(trainer.folder.best, trainer.net)
    with cast(spec.train.precision, setting.device):
        return evaluate(trainer.net, test, trainer.task, batch=spec.train.evaluate_batch, world=world)


def unlike_preset(spec: Experiment, data: Dataset) -> list[str]:
    """What of an experiment that goes by a preset's name was set otherwise: its result is not the preset's."""
    if spec.name not in preset_names():
        return []
    other_files = [] if data.edition in ("published", "built in") else [f"the data is {data.title} ({data.edition})"]
    return other_files + differences(preset(spec.name), spec, free=("seed", "train.protocol", *_FREE[2:]))


def train_trials(spec: Experiment, out: Path, trials: int, setting: Setting) -> dict[str, Any] | None:
    """`trials` runs with seeds seed, seed + 1, ...; best, mean and sample sigma of their accuracies."""
    if (out / "experiment.toml").is_file():
        raise ValueError(f"{out} holds a single run; choose another --out for trials")
    if spec.seed + trials > 2**32:
        raise ValueError(f"--trials {trials}: seeds must be below 2**32, but the first is {spec.seed}")
    done = []
    with joined(setting.device) as world:  # once: torchrun's store holds the addresses of the first time
        for trial in range(trials):
            seeded = spec.model_copy(update={"seed": spec.seed + trial})
            summary = _train(seeded, out / f"trial-{trial}", setting, world)
            if summary is None:
                return None
            done.append(summary)
    accuracies = [summary["accuracy"] for summary in done]
    known = [accuracy for accuracy in accuracies if accuracy is not None]  # a trial may end before its first epoch does
    together = {
        "experiment": spec.name,
        "data": done[0]["data"],
        "edition": done[0]["edition"],
        "protocol": spec.train.protocol,
        "trials": trials,
        "seeds": [summary["seed"] for summary in done],
        "accuracies": accuracies,
        "best": max(known, default=None),
        "mean": statistics.mean(known) if known else None,
        "sigma": statistics.stdev(known) if len(known) > 1 else None,
        "endings": [summary["ended"] for summary in done],
        "paper": done[0]["paper"],
        "unlike_preset": done[0]["unlike_preset"],
        "warnings": [warning for summary in done for warning in summary["warnings"]],
        "command": setting.command,
        "versions": done[0]["versions"],
        "seconds": round(sum(summary["seconds"] for summary in done), 3),
    }
    if World.rank_here() == 0:
        RunFolder(out).write_summary(together)
    return together


def best_trial(path: Path) -> Path:
    """The run itself, or of a folder of trials the one that was chosen by the best accuracy."""
    if (path / "experiment.toml").is_file():
        return path
    runs = [trial for trial in sorted(path.glob("trial-*")) if (trial / "best.safetensors").is_file()]
    if not runs:
        raise FileNotFoundError(f"{path} holds no run: there is no experiment.toml in it, nor in trial-*")
    return max(runs, key=lambda run: chosen_accuracy(RunFolder(run).best))


def load_run(path: str | Path, *, device: str | torch.device = "cpu") -> SpikingNetwork:
    """The best network of a run (of trials: of the best), in evaluation mode, with its thresholds; no data is read."""
    run = best_trial(Path(path))
    spec = read_experiment(run / "experiment.toml")
    weights = RunFolder(run).best
    net = build_network(spec, input_shape(weights)).to(dtype_of(spec.train.precision))
    load_weights(weights, net)
    return net.to(device).eval()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What `bitspike evaluate` prints."""

    run: Path
    spec: Experiment
    data: Dataset
    network: SpikingNetwork
    split: Split
    result: Evaluation

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "run": str(self.run),
            "experiment": self.spec.name,
            "data": self.data.title,
            "edition": self.data.edition,
            "split": self.split,
            **asdict(self.result),
            "versions": versions(),
        }


def evaluate_run(path: Path, split: Split, setting: Setting) -> Evaluated:
    """The best network of a run on one split of its data."""
    run = best_trial(path)
    spec = read_experiment(run / "experiment.toml")
    data = open_dataset(spec.data, root=setting.data_root, progress=setting.progress, seed=spec.seed)
    parts = splits(spec, data)
    if split not in parts:
        raise ValueError(
            f"evaluate: the run was made with protocol 'paper', which has no {split!r} split; use test or train"
        )
    net = load_run(run, device=setting.device)
    samples = parts[split].to(setting.device)
    batch = spec.train.evaluate_batch
    tick = setting.progress(f"{data.title}, {split}", -(-len(samples) // batch))
    with reproducible(spec.train.precision), cast(spec.train.precision, setting.device):
        result = evaluate(net, samples, choose_task(spec, len(net.layers)), batch=batch, on_batch=tick)
    return Evaluated(run, spec, data, net, split, result)
