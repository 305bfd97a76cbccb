"""From an experiment to a run's folder: train it, or several trials of it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bitspike.data.datasets import open_dataset, own_edition
from bitspike.data.samples import Dataset, Samples
from bitspike.experiments.assembly import (
    FREE,
    Setting,
    Split,
    build_network,
    check_fit,
    choose_task,
    differences,
    identity,
    iteration_work,
    origin,
    splits,
)
from bitspike.experiments.presets import preset, preset_names
from bitspike.experiments.provenance import peak_memory_mb, versions
from bitspike.experiments.saved import is_run
from bitspike.experiments.schema import Experiment, as_toml, as_values, read_experiment
from bitspike.files import locked, require_folder, write_text
from bitspike.nn import SpikingNetwork
from bitspike.train.evaluation import Evaluation, evaluate, evaluation_batch
from bitspike.train.loop import Trainer
from bitspike.train.numerics import cast, reproducible, threads_for
from bitspike.train.run_folder import RunFolder, sealed, trial_folders
from bitspike.train.together import Chorus, run_together
from bitspike.train.world import World, joined


def _alone(folder: RunFolder, world: World) -> AbstractContextManager[None]:
    """The folder is this run's until it ends; the first process holds it for all."""

    def busy() -> None:
        raise ValueError(f"{folder.path} is in use by another process; wait for it, or choose another --out")

    return locked(folder.lock, busy) if world.first else nullcontext()


def _prepare(spec: Experiment, folder: RunFolder, setting: Setting, world: World) -> dict[str, Any] | None:
    """The folder ready for the run; the summary of one that is complete already."""
    require_folder(folder.path, "choose another --out", written=False)
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
        done = folder.read_summary(sealed=True)
        if done is not None and not _may_go_on(done, before, spec):
            _require_its_data(done, spec, folder)
            if int(done["epochs"]) > spec.train.epochs:
                setting.listener.note(
                    f"{folder.path} is complete, after {done['epochs']} epochs, and is shown as it is"
                )
            return done
        if done is not None and not folder.last.is_file():
            raise ValueError(
                f"{folder.path} is complete after {done['epochs']} epochs and cannot go on, as its {folder.last.name} "
                "is gone; choose another --out"
            )
    if world.first:
        require_folder(folder.path, "choose another --out")
    return None


def _require_its_data(done: Mapping[str, Any], spec: Experiment, folder: RunFolder) -> None:
    """A complete run on own files, wherever they lie now: what is in them tells whether they are the same.

    Without its files a complete run can still be shown.
    """
    files = [file for file in (spec.data.file, spec.data.test_file) if file is not None]
    if not files or not all(file.is_file() for file in files):
        return
    if (found := own_edition(spec.data)) != done.get("edition"):
        raise ValueError(
            f"{folder.path} holds another experiment: it was made on {done.get('edition')}, but "
            f"{' and '.join(map(str, files))} hold {found}; put the old data back, or choose another --out"
        )


def _may_go_on(done: Mapping[str, Any], before: Experiment, spec: Experiment) -> bool:
    """A complete run has more to do if it now may take more epochs, or wait longer for a better one."""
    if done["ended"] == "patience":
        longer = spec.train.patience is None or spec.train.patience > (before.train.patience or 0)
        return longer and int(done["epochs"]) < spec.train.epochs
    return done["ended"] == "epochs" and int(done["epochs"]) < spec.train.epochs


def _begin(spec: Experiment, trainer: Trainer, world: World, above: RunFolder | None) -> None:
    """Write down what is about to be trained; only now, so that a run which could not begin leaves nothing."""
    folder = trainer.folder
    world.wait()
    if world.first:
        for left in folder.partial():
            left.unlink(missing_ok=True)
        folder.summary.unlink(missing_ok=True)  # a run that goes on is not complete
        if above is not None:  # nor are the trials of which it is one
            above.summary.unlink(missing_ok=True)
        if not trainer.progress.best_epoch:  # the network of an epoch that is not in the run
            folder.best.unlink(missing_ok=True)
        for left in folder.events() if not trainer.progress.step else ():
            left.unlink(missing_ok=True)
        write_text(
            folder.experiment,
            as_toml(spec, f"bitspike {versions()['bitspike']}; run again with: bitspike train experiment.toml"),
        )


def resumable(out: Path) -> bool:
    """Whether `out`, or a trial in it, has a checkpoint to go on from, or is complete."""
    return bool(complete(out)) or any(RunFolder(each).last.is_file() for each in (out, *trial_folders(out)))


def complete(out: Path) -> list[Path]:
    """The runs in `out` that have ended: itself, or its trials."""
    return [each for each in (out, *trial_folders(out)) if is_run(each) and RunFolder(each).summary.is_file()]


def train_run(spec: Experiment, out: Path, setting: Setting) -> dict[str, Any] | None:
    """Train one network; gives what summary.json holds, or None if it was interrupted (then it can be resumed)."""
    with joined(setting.device) as world:
        return _train(spec, out, setting, world)


@dataclass(frozen=True, slots=True)
class _Material:
    """What a run learns from: the data set, and its parts on the device."""

    data: Dataset
    parts: Mapping[Split, Samples]


def _open(spec: Experiment, setting: Setting) -> Dataset:
    return open_dataset(spec.data, root=setting.data_root, progress=setting.progress, seed=spec.seed)


def _fitting_network(spec: Experiment, data: Dataset) -> SpikingNetwork:
    net = build_network(spec, data.shape)
    check_fit(spec, net, data)
    return net


def _on_device(spec: Experiment, data: Dataset, setting: Setting) -> _Material:
    parts = {name: part.to(setting.device) for name, part in splits(spec, data).items()}
    return _Material(data, parts)


def _trainer(
    spec: Experiment, net: SpikingNetwork, material: _Material, folder: RunFolder, setting: Setting, world: World
) -> Trainer:
    return Trainer(
        net,
        spec.net.schedules(len(net.layers)),
        choose_task(spec, len(net.layers)),
        material.parts["train"],
        material.parts["test" if spec.train.protocol == "paper" else "valid"],
        spec.train,
        folder,
        seed=spec.seed,
        repeat=spec.data.repeat,
        identity=identity(spec, material.data),
        origin=origin(spec, material.data, setting),
        world=world,
        listener=setting.listener,
        graph=setting.graph == "auto",
    )


def _train(
    spec: Experiment, out: Path, setting: Setting, world: World, above: RunFolder | None = None
) -> dict[str, Any] | None:
    folder = RunFolder(out)
    with reproducible(spec.train.precision):
        done = _prepare(spec, folder, setting, world)
        if done is not None:
            return done
        data = _open(spec, setting)
        net = _fitting_network(spec, data)
        material = _on_device(spec, data, setting)
        trainer = _trainer(spec, net, material, folder, setting, world)
        with _alone(folder, world):
            if (done := _prepare(spec, folder, setting, world)) is not None:  # another may have been here since
                return done
            if setting.resume:
                trainer.resume()
            _begin(spec, trainer, world, above)
            if world.first:
                setting.started(spec, data, net, out)
            _warn_of_one_class(spec, trainer, material)
            with threads_for(iteration_work(spec, data)):
                ended = trainer.run()
                if ended == "interrupted":
                    return None
                return _summarize(spec, material, trainer, ended, setting, world)


def _train_together(
    specs: Sequence[Experiment], outs: Sequence[Path], setting: Setting, above: RunFolder
) -> list[dict[str, Any]] | None:
    """All that are not complete side by side, on one copy of the data; None if they were interrupted."""
    world, chorus, folders = World(), Chorus(setting.listener, len(specs)), [RunFolder(out) for out in outs]
    began = datetime.now(UTC).isoformat(timespec="seconds")
    with ExitStack() as held:
        held.enter_context(reproducible(specs[0].train.precision))
        done = {i: _prepare(spec, folders[i], setting, world) for i, spec in enumerate(specs)}
        materials: dict[int, _Material] = {}
        trainers: dict[int, Trainer] = {}
        for i in (i for i, summary in done.items() if summary is None):
            spec = specs[i]
            drawn = spec.data.name == "coding"  # by the seed; other data is the same for all
            shared = None if drawn else next(iter(materials.values()), None)
            data = _open(spec, setting) if shared is None else shared.data
            net = _fitting_network(spec, data)
            materials[i] = shared or _on_device(spec, data, setting)
            told = replace(setting, listener=chorus.voice(i))
            trainers[i] = _trainer(spec, net, materials[i], folders[i], told, world)
        for i in trainers:
            held.enter_context(_alone(folders[i], world))
        done = {i: _prepare(spec, folders[i], setting, world) for i, spec in enumerate(specs)}  # as in _train
        trainers = {i: trainer for i, trainer in trainers.items() if done[i] is None}
        for trainer in trainers.values() if setting.resume else ():
            trainer.resume()
        for i, trainer in trainers.items():
            _begin(specs[i], trainer, world, above)
            setting.started(specs[i], materials[i].data, trainer.net, outs[i])
            _warn_of_one_class(specs[i], trainer, materials[i])
        if trainers:
            first = next(iter(trainers))
            held.enter_context(threads_for(iteration_work(specs[first], materials[first].data)))
        endings = dict(zip(trainers, run_together(list(trainers.values())) if trainers else (), strict=True))
        for i, ended in endings.items():
            if ended != "interrupted":
                more = {"together": len(trainers), "together_since": began}
                done[i] = _summarize(specs[i], materials[i], trainers[i], ended, setting, world, more)
    found = [summary for summary in done.values() if summary is not None]
    return found if len(found) == len(specs) else None


def _summarize(
    spec: Experiment,
    material: _Material,
    trainer: Trainer,
    ended: str,
    setting: Setting,
    world: World,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    progress, folder, data, test = trainer.progress, trainer.folder, material.data, material.parts["test"]
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
        "accuracy_of": f"test set, {_chosen(spec)}",
        "best_epoch": progress.best_epoch,
        f"{trainer.chosen_on}_accuracy": progress.best_accuracy if result else None,
        "test_loss": result.loss if result else None,
        "epochs": progress.epoch,
        "steps": progress.step,
        "ended": ended,
        "warnings": progress.warnings,
        "dead": dict(zip(names, result.dead, strict=True)) if result else None,
        "spikes": dict(zip(names, result.spikes, strict=True)) if result else None,
        "unanswered": result.unanswered if result else None,
        "theta": trainer.annealing.thresholds(),
        "samples": {"train": len(trainer.samples), trainer.chosen_on: len(trainer.chooser), "test": len(test)},
        "samples_sha256": dict(trainer.origin.samples),
        "parameters": sum(p.numel() for p in trainer.net.parameters()),
        "seed": spec.seed,
        "paper": as_values(spec.paper) if spec.paper else None,
        "unlike_preset": unlike_preset(spec, data),
        "command": setting.command,
        "versions": versions(),
        "device": str(setting.device),
        "processes": world.size,
        "graph": trainer.graph,
        "seconds": round(progress.seconds, 3),
        "test_seconds": round(time.perf_counter() - began, 3),
        "peak_memory_mb": peak_memory_mb(setting.device),
        **(more or {}),
    }
    summary = sealed(summary)
    if world.first:
        folder.write_summary(summary)
    return summary


def _warn_of_one_class(spec: Experiment, trainer: Trainer, material: _Material) -> None:
    """Accuracy tells nothing where every answer can be the same."""
    if spec.train.loss == "trace":
        return
    for title, samples in (("training", material.parts["train"]), ("test", material.parts["test"])):
        labels = samples.labels.unique().tolist()
        if len(labels) == 1:
            trainer.warn(
                f"all {len(samples):,} {title} samples of {material.data.title} are of one class, label {labels[0]}: "
                "accuracy says nothing; look at the file's labels"
            )
            return


def _chosen(spec: Experiment) -> str:
    """Which epoch's weights a run ends with."""
    if spec.train.choose == "last":
        return "last epoch"
    return f"best epoch by {'test' if spec.train.protocol == 'paper' else 'validation'} accuracy"


def _test(spec: Experiment, trainer: Trainer, test: Samples, setting: Setting, world: World) -> Evaluation:
    """The chosen epoch's network on the test samples, with the thresholds that it was chosen with."""
    trainer.load_best()
    batch = evaluation_batch(spec.train.evaluate_batch, test)
    with cast(spec.train.precision, setting.device):
        return evaluate(trainer.net, test, trainer.task, batch=batch, world=world)


def unlike_preset(spec: Experiment, data: Dataset) -> list[str]:
    """What of an experiment that goes by a preset's name was set otherwise: its result is not the preset's."""
    if spec.name not in preset_names():
        return []
    other_files = [] if data.edition in ("published", "built in") else [f"the data is {data.title} ({data.edition})"]
    return other_files + differences(preset(spec.name), spec, free=("seed", "train.protocol", *FREE[2:]))


def train_trials(
    spec: Experiment, out: Path, trials: int, setting: Setting, *, together: bool = False
) -> dict[str, Any] | None:
    """`trials` runs with seeds seed, seed + 1, ...; best, mean and sample sigma of their accuracies.

    With `together` they are trained side by side in one process: each comes to the same numbers, but its seconds and
    its peak memory are those of all (its summary says of how many).
    """
    if (out / "experiment.toml").is_file():
        raise ValueError(f"{out} holds a single run; choose another --out for trials")
    if spec.seed + trials > 2**32:
        raise ValueError(f"--trials {trials}: seeds must be below 2**32, but the first is {spec.seed}")
    specs = [spec.model_copy(update={"seed": spec.seed + trial}) for trial in range(trials)]
    outs = [out / f"trial-{trial}" for trial in range(trials)]
    if together:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ValueError("--together trains all trials in one process, but torchrun started several; use one way")
        done = _train_together(specs, outs, setting, RunFolder(out))
    else:
        done = _train_in_turn(specs, outs, setting, RunFolder(out))
    if done is None:
        return None
    _require_same_samples(spec, done, outs)
    summary = _summarize_trials(spec, done, setting)
    if World.rank_here() == 0:
        RunFolder(out).write_summary(summary)
    return summary


def _require_same_samples(spec: Experiment, done: Sequence[Mapping[str, Any]], outs: Sequence[Path]) -> None:
    """Trials, some of them made earlier, are summed up only if all saw the same data."""
    known = [(out, summary["samples_sha256"]) for out, summary in zip(outs, done, strict=True) if _says(summary)]
    for out, digests in known if spec.data.name != "coding" else ():  # which is drawn from the seed
        if digests != known[0][1]:
            raise ValueError(
                f"{known[0][0]} and {out} were trained on other samples: the data was replaced in between; "
                "train all trials on the same data, with another --out"
            )


def _says(summary: Mapping[str, Any]) -> bool:
    """A run of an earlier version does not say what its samples held."""
    return "samples_sha256" in summary


def _train_in_turn(
    specs: Sequence[Experiment], outs: Sequence[Path], setting: Setting, above: RunFolder
) -> list[dict[str, Any]] | None:
    done: list[dict[str, Any]] = []
    with joined(setting.device) as world:  # once: torchrun's store holds the addresses of the first time
        for spec, out in zip(specs, outs, strict=True):
            summary = _train(spec, out, setting, world, above)
            if summary is None:
                return None
            done.append(summary)
    return done


def _summarize_trials(spec: Experiment, done: Sequence[Mapping[str, Any]], setting: Setting) -> dict[str, Any]:
    accuracies = [summary["accuracy"] for summary in done]
    known = [accuracy for accuracy in accuracies if accuracy is not None]  # a trial may end before its first epoch does
    seconds = [summary["seconds"] for summary in done]
    at_once = any("together" in summary for summary in done)  # then each has the seconds of all
    return {
        "experiment": spec.name,
        "data": done[0]["data"],
        "edition": done[0]["edition"],
        "protocol": spec.train.protocol,
        "trials": len(done),
        "seeds": [summary["seed"] for summary in done],
        "accuracies": accuracies,
        "best": max(known, default=None),
        "mean": statistics.mean(known) if known else None,
        "sigma": statistics.stdev(known) if len(known) > 1 else None,
        "unanswered": statistics.mean(summary.get("unanswered") or 0.0 for summary in done),
        "endings": [summary["ended"] for summary in done],
        "paper": done[0]["paper"],
        "unlike_preset": done[0]["unlike_preset"],
        "warnings": [warning for summary in done for warning in summary["warnings"]],
        "command": setting.command,
        "versions": done[0]["versions"],
        "seconds": round(max(seconds) if at_once else sum(seconds), 3),
    }
