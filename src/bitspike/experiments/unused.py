"""Fields that would do nothing in an experiment: they are refused where they are not at their defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bitspike.data.samples import Dataset
from bitspike.experiments.schema import Experiment
from bitspike.nn.notation import Conv, Dense, parse


@dataclass(frozen=True, slots=True)
class Rule:
    """A field has an effect only where `used(spec, data)` is true; `needs` says in words what that is."""

    field: str
    needs: str
    used: Callable[[Experiment, Dataset], bool]
    instead: str = ""


def _has_convolution(spec: Experiment, data: Dataset) -> bool:
    return any(isinstance(layer, Conv) for layer in parse(spec.net.notation, data.shape)[0])


def _has_hidden_dense(spec: Experiment, data: Dataset) -> bool:
    return any(isinstance(layer, Dense) for layer in parse(spec.net.notation, data.shape)[0][:-1])


RULES = (
    Rule(
        "data.validation_groups",
        "train.protocol = 'holdout'",
        lambda spec, data: spec.train.protocol == "holdout",
        "protocol 'paper' trains on all groups: set the protocol, or leave the groups out",
    ),
    Rule("net.norm", "a convolution", _has_convolution, "batch norm behind Dense layers is net.dense_norm = true"),
    Rule(
        "net.recurrent",
        "a hidden Dense layer",
        _has_hidden_dense,
        "give net.hidden, such as [256, 256], in place of a notation, or set it to false",
    ),
    Rule("net.clip", "net.binary = true", lambda spec, data: spec.net.binary),
    Rule(
        "net.steps",
        "samples without time steps of their own",
        lambda spec, data: data.train.steps is None,
        "events have data.steps",
    ),
    Rule("train.momentum", "train.optimizer = 'sgd'", lambda spec, data: spec.train.optimizer == "sgd"),
    Rule("train.betas", "train.optimizer = 'adam' or 'adamw'", lambda spec, data: spec.train.optimizer != "sgd"),
    Rule("train.eps", "train.optimizer = 'adam' or 'adamw'", lambda spec, data: spec.train.optimizer != "sgd"),
    Rule("train.mix_with", "train.mix", lambda spec, data: spec.train.mix > 0),
    Rule("train.delay_soft", "net.delays", lambda spec, data: spec.net.longest_delay > 0),
    Rule("train.delay_width", "net.delays", lambda spec, data: spec.net.longest_delay > 0),
    Rule("train.correct", "train.loss = 'count'", lambda spec, data: spec.train.loss == "count"),
    Rule("train.incorrect", "train.loss = 'count'", lambda spec, data: spec.train.loss == "count"),
    Rule("train.logit_scale", "train.loss = 'cross_entropy'", lambda spec, data: spec.train.loss == "cross_entropy"),
    Rule(
        "train.label_smoothing", "train.loss = 'cross_entropy'", lambda spec, data: spec.train.loss == "cross_entropy"
    ),
    Rule("train.over_time", "train.loss = 'trace'", lambda spec, data: spec.train.loss == "trace"),
)


def refuse_unused(spec: Experiment, data: Dataset) -> None:
    """Raise if a field that is not at its default would do nothing; the line says what it needs."""
    for rule in RULES:
        table, _, name = rule.field.partition(".")
        config = getattr(spec, table)
        value, default = getattr(config, name), type(config).model_fields[name].default
        if value != default and not rule.used(spec, data):
            remedy = rule.instead or f"leave it out, or set it to {_shown(default)}"
            raise ValueError(f"{rule.field} = {_shown(value)} would do nothing: it needs {rule.needs}; {remedy}")


def _shown(value: Any) -> str:
    """Return a value as TOML or --set write it."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else repr(list(value) if isinstance(value, tuple) else value)
