"""From a run's folder to plain arrays: exactly the network that `load_run` gives, and what a person asks about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bitspike.deploy.describe import describe
from bitspike.deploy.model import NetworkModel
from bitspike.deploy.packing.limits import MOST_NOTE
from bitspike.experiments.assembly import outputs_of
from bitspike.experiments.data_facts import kept_facts, unknown_facts
from bitspike.experiments.model_input import class_names, model_input, time_unit
from bitspike.experiments.saved import best_trial, load_network, made_with
from bitspike.experiments.schema import Experiment
from bitspike.nn import SpikingNetwork
from bitspike.text import printable
from bitspike.train.checkpoint import weights_info
from bitspike.train.run_folder import RunFolder

UNKNOWN_LABELS = "too many to list"
NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True, eq=False)
class DescribedRun:
    """The best network of a run: in PyTorch, in evaluation mode on the CPU, and as plain arrays.

    `notes` are what a person should know.
    """

    run: Path
    net: SpikingNetwork
    model: NetworkModel
    notes: tuple[str, ...] = ()


def described_run(path: Path) -> DescribedRun:
    """Return the best network of a run, or of the best of its trials: the one that `load_run` gives. No data is read.

    A ValueError says what cannot be exported, such as float32 weights.
    """
    run = best_trial(path)
    spec = made_with(run)
    net = load_network(run, spec, torch.device("cpu"))
    facts = kept_facts(run, spec)
    unknown = unknown_facts(spec, facts)
    try:
        model = describe(
            net,
            input=model_input(run, spec),
            class_names=class_names(spec.data, outputs_of(net), texts(facts.get("class_names"))),
            metadata=_metadata(run, spec, facts),
        )
    except ValueError as error:
        reason = str(error).removeprefix("describe: ")
        raise ValueError(f"{run} cannot be exported: {reason}") from None
    return DescribedRun(run, net, model, (f"{run}: {unknown}",) if unknown else ())


def texts(values: Any) -> list[str]:
    """Return a list from a summary as texts that are safe to show; an empty one for anything else."""
    return [printable(str(value)) for value in values] if isinstance(values, list) else []


def _metadata(run: Path, spec: Experiment, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what a person asks about the network, and what `bitspike predict` needs: all of it text."""
    labels = texts(facts.get("file_labels"))  # none where they are 0, 1, 2 and so on
    found = {
        "experiment": spec.name,
        "title": spec.title,
        "seed": str(spec.seed),
        "protocol": spec.train.protocol,
        "logit_scale": f"{spec.train.logit_scale:g}",
        "time_unit": time_unit(spec.data) or "",
        "labels": NOT_KNOWN if unknown_facts(spec, facts) else _in_json(labels),
        **_results(facts),
        "weights_sha256": weights_info(RunFolder(run).best).digest or "",
    }
    return {key: printable(text)[:MOST_NOTE] for key, text in found.items() if text}


def _in_json(labels: list[str]) -> str:
    """Return labels as JSON, or a word where there are too many for the metadata; nothing for none."""
    text = json.dumps(labels) if labels else ""
    return text if len(text) <= MOST_NOTE else UNKNOWN_LABELS


def _results(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the run's results as text; nothing for what its summary does not tell."""
    found: dict[str, str] = {
        key: str(summary[key]).strip()
        for key in ("data", "edition", "accuracy_of", "command")
        if summary.get(key) is not None
    }
    if isinstance(accuracy := summary.get("accuracy"), float):
        found["accuracy"] = f"{accuracy:.6g}"
    if isinstance(samples := summary.get("samples"), dict):
        found["test_samples"] = str(samples.get("test", ""))
    if isinstance(spikes := summary.get("spikes"), dict):
        found["spikes"] = " ".join(f"{each:.1f}" for each in spikes.values() if isinstance(each, int | float))
    if isinstance(versions := summary.get("versions"), dict):
        found["versions"] = ", ".join(f"{name} {versions[name]}" for name in ("bitspike", "torch") if name in versions)
    return found
