"""The content of summary.json, for a run and for several trials."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bitspike.data.catalog import drawn_from_seed, usual_edition
from bitspike.data.samples import Dataset, Samples
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import SAME_NUMBERS, differences
from bitspike.experiments.data_facts import data_facts
from bitspike.experiments.held_out import held_out_groups
from bitspike.experiments.presets import preset, preset_names
from bitspike.experiments.provenance import peak_memory_mb, versions
from bitspike.experiments.run_data import RunData
from bitspike.experiments.schema import Experiment, as_values
from bitspike.nn import Delay, Gain, SpikingNetwork
from bitspike.train.evaluation import Evaluation, evaluate, evaluation_batch
from bitspike.train.loop import Trainer
from bitspike.train.numerics import cast
from bitspike.train.run_folder import sealed
from bitspike.train.world import World


def summarize_run(
    spec: Experiment,
    data: RunData,
    trainer: Trainer,
    ended: str,
    options: RunOptions,
    world: World,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Test the best network of a run that has `ended` (if `options` say so), write summary.json and return its content.

    `more` is added to it.
    """
    progress, dataset = trainer.progress, data.dataset
    world.wait()
    began = time.perf_counter()
    tested = bool(progress.best_epoch) and options.test
    result = _test_best(spec, trainer, data.test, options, world) if tested else None
    names = trainer.net.neuron_names()
    summary: dict[str, Any] = {
        "experiment": spec.name,
        "data": dataset.title,
        "edition": dataset.edition,
        "protocol": spec.train.protocol,
        "accuracy": result.accuracy if result else None,
        "accuracy_of": f"test set, {_chosen_epoch(spec)}" if options.test else "not tested",
        "best_epoch": progress.best_epoch,
        f"{trainer.chosen_on}_accuracy": progress.best_accuracy if progress.best_epoch else None,
        "test_loss": result.loss if result else None,
        "epochs": progress.epoch,
        "steps": progress.step,
        "ended": ended,
        "warnings": progress.warnings,
        "dead": dict(zip(names, result.dead, strict=True)) if result else None,
        "spikes": dict(zip(names, result.spikes, strict=True)) if result else None,
        "unanswered": result.unanswered if result else None,
        "theta": _thresholds(trainer),
        **_delays_and_gains(trainer.net),
        "samples": {
            "train": len(trainer.samples),
            trainer.chosen_on: len(trainer.selection_samples),
            "test": len(data.test),
        },
        "held_out": _held_out(spec, dataset),
        **data_facts(spec, dataset),
        "samples_sha256": dict(trainer.origin.samples),
        "parameters": sum(p.numel() for p in trainer.net.parameters()),
        "seed": spec.seed,
        "paper": as_values(spec.paper) if spec.paper else None,
        "unlike_preset": unlike_preset(spec, dataset),
        "command": options.command,
        "versions": versions(),
        "device": str(options.device),
        "processes": world.size,
        "graph": trainer.graph,
        "seconds": round(progress.seconds, 3),
        "test_seconds": round(time.perf_counter() - began, 3),
        "peak_memory_mb": peak_memory_mb(options.device),
        **(more or {}),
    }
    summary = sealed(summary)
    if world.first:
        trainer.folder.write_summary(summary)
    return summary


def _thresholds(trainer: Trainer) -> dict[str, float]:
    """Return the threshold of each layer that fires."""
    thresholds = trainer.annealing.thresholds()
    return {name: thresholds[name] for name in trainer.net.firing_names()}


def _delays_and_gains(net: SpikingNetwork) -> dict[str, dict[str, float]]:
    """Return the mean delay and the mean gain of each layer's input, rounded as in evaluation, where there are some."""
    found: dict[str, dict[str, float]] = {"delays": {}, "gains": {}}
    for name, module in net.named_modules():
        if isinstance(module, (Delay, Gain)):
            kind = "delays" if isinstance(module, Delay) else "gains"
            found[kind][name] = module.rounded().double().mean().item()
    return {kind: means for kind, means in found.items() if means}


def _held_out(spec: Experiment, dataset: Dataset) -> dict[str, list[int | str]] | None:
    """Return the groups that are held out, under their name, such as {"speakers": [3, 8]}; None if there are none."""
    groups = held_out_groups(spec, dataset)
    return None if groups is None else {dataset.group_names: groups}


def _test_best(spec: Experiment, trainer: Trainer, test: Samples, options: RunOptions, world: World) -> Evaluation:
    """Evaluate the chosen epoch's network on the test samples, with the thresholds that it was chosen with."""
    trainer.load_best()
    batch = evaluation_batch(spec.train.evaluate_batch, test)
    with cast(spec.train.precision, options.device):
        return evaluate(trainer.net, test, trainer.task, batch=batch, world=world)


def _chosen_epoch(spec: Experiment) -> str:
    """Return words that say which epoch's weights a run ends with."""
    if spec.train.choose == "last":
        return "last epoch"
    return f"best epoch by {'test' if spec.train.protocol == 'paper' else 'validation'} accuracy"


def unlike_preset(spec: Experiment, dataset: Dataset) -> list[str]:
    """List the differences from the preset of the experiment's name; with any, the result is not the preset's."""
    if spec.name not in preset_names():
        return []
    meant = dataset.edition in ("published", "built in") or dataset.edition == usual_edition(spec.data.name)
    edition = "" if dataset.edition in dataset.title else f" ({dataset.edition})"
    other_files = [] if meant else [f"the data is {dataset.title}{edition}"]
    return other_files + differences(preset(spec.name), spec, free=("seed", "train.protocol", *SAME_NUMBERS))


def summarize_trials(spec: Experiment, done: Sequence[Mapping[str, Any]], options: RunOptions) -> dict[str, Any]:
    """Return best, mean and sample sigma of the accuracies of trials, from the summaries of all of them."""
    accuracies = [summary["accuracy"] for summary in done]
    known = [accuracy for accuracy in accuracies if accuracy is not None]  # a trial may end before its first epoch does
    seconds = [summary["seconds"] for summary in done]
    side_by_side = any("together" in summary for summary in done)  # then the seconds of each are those of all together
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
        "command": options.command,
        "versions": done[0]["versions"],
        "seconds": round(max(seconds) if side_by_side else sum(seconds), 3),
    }


def require_same_samples(spec: Experiment, done: Sequence[Mapping[str, Any]], outs: Sequence[Path]) -> None:
    """Raise if trials (some may be older) used different data: their mean would have no meaning.

    Runs of earlier versions do not name their samples, and are not checked.
    """
    if drawn_from_seed(spec.data.name):  # its samples are drawn from the seed
        return
    key = "samples_sha256"
    known = [(out, summary[key]) for out, summary in zip(outs, done, strict=True) if key in summary]
    for out, digests in known:
        if digests != known[0][1]:
            raise ValueError(
                f"{known[0][0]} and {out} were trained on other samples: the data was replaced in between; "
                f"train all trials on the same data, with another {'--out' if spec.data.passed is None else 'folder'}"
            )
