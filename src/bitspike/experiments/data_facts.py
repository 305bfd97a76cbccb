"""Facts on its data that a run keeps for those who use its network: how files become input, and names of classes.

best.safetensors keeps it with each network that is written, so that a killed run has it. A finished run's summary.json
has it, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bitspike.data.samples import Dataset, Frames, Images
from bitspike.experiments.schema import Experiment
from bitspike.train.checkpoint import weights_info
from bitspike.train.run_folder import RunFolder

SETTING = "data"  # the key among the settings in best.safetensors
MOST_FACTS = 1 << 18  # characters; best.safetensors has room for four times as many in all


def data_facts(spec: Experiment, data: Dataset) -> dict[str, Any]:
    """Return the tables of a run's summary that tell how to use its network: plain values, as JSON holds them."""
    return {"input": _input(spec, data), **_names(data)}


def facts_setting(spec: Experiment, data: Dataset) -> dict[str, str]:
    """Return the same as a setting in best.safetensors; nothing where the names of classes are too many to keep."""
    text = json.dumps(data_facts(spec, data))
    return {SETTING: text} if len(text) <= MOST_FACTS else {}


def kept_facts(run: Path, spec: Experiment) -> Mapping[str, Any]:
    """Return the summary of a finished run, or what the network of an unfinished one keeps of its data.

    The unfinished run of an earlier version keeps nothing: it has the names that its experiment gives, if any.
    """
    folder = RunFolder(run)
    if (summary := folder.read_summary()) is not None:
        return summary
    named = {} if spec.data.class_names is None else {"class_names": list(spec.data.class_names)}
    return _facts_in(folder.best) | named


def unknown_facts(spec: Experiment, facts: Mapping[str, Any]) -> str:
    """Return a note on what an unfinished run does not tell about the classes of one's own data; empty if it does."""
    if spec.data.name is not None or facts.keys() - {"class_names"}:
        return ""
    what = "labels" if "class_names" in facts else "names"
    return f"the run is not finished; {what} of classes are not known; bitspike train --resume keeps them"


def _facts_in(best: Path) -> dict[str, Any]:
    """Return what best.safetensors keeps; nothing in one of an earlier version."""
    try:
        facts = json.loads(weights_info(best).recorded("settings", SETTING) or "{}")
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{best} is damaged: its settings.{SETTING} is not valid JSON") from None
    return facts if isinstance(facts, dict) else {}


def _names(data: Dataset) -> dict[str, list[str]]:
    """Return the names of the classes and their labels in the user's files; nothing if both are 0, 1, 2 and so on."""
    plain = tuple(map(str, range(data.classes)))
    if not data.file_labels or data.class_names == data.file_labels == plain:
        return {}
    return {"class_names": list(data.class_names), "file_labels": list(data.file_labels)}


def _input(spec: Experiment, data: Dataset) -> dict[str, Any]:
    samples = data.test
    if isinstance(samples, Images):
        return {"kind": "images", "shape": list(data.shape), "steps": spec.net.steps}
    table: dict[str, Any] = {"kind": "spikes", "shape": list(data.shape), "steps": samples.steps}
    if samples.rule is None:
        return table
    return {
        **table,
        "kind": "events",
        **asdict(samples.rule.binning),
        "sensor": list(_sensor(data)),
        "time_origin": samples.rule.origin,
    }


def _sensor(data: Dataset) -> tuple[int, ...]:
    """Return the size of the sensor that holds the events of all splits: where it was found, they may differ."""
    rules = [part.rule for part in (data.train, data.test, data.valid) if isinstance(part, Frames)]
    return tuple(map(max, zip(*(rule.sensor for rule in rules if rule is not None), strict=True)))
