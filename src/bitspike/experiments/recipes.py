"""The base recipes: the fields that an experiment file may leave out, made for its data by `presets/base.toml`."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

Tables = dict[str, Any]

BASES = ("base/sequences", "base/images")
NO_BASE = "none"
MEASURED = "found: measured, as by bitspike suggest, for the layers without batch norm"  # the source of thresholds


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts a recipe needs of the data, and of the network's layers: "conv" or "dense", the last included."""

    samples: int  # that train
    steps: int | None  # of a sample; None for images
    layers: Sequence[str]
    validation: bool = False  # whether there are samples of their own to choose the epoch by


@cache
def base_tables() -> Tables:
    """Return the tables of `presets/base.toml`."""
    text = resources.files("bitspike.experiments").joinpath("presets", "base.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def recipe(base: str) -> Tables:
    """Return the tables of a base recipe: `net`, `train`, `rules` and `sources`."""
    table: Tables = base_tables()[base.removeprefix("base/")]
    return table


def recipe_toml(base: str) -> str:
    """Return a base recipe as TOML: its fields, the rules that make fields from the data, and the sources of both."""
    import tomli_w

    kind = "static images" if base == "base/images" else "events and spikes over time"
    heading = f"# {base}: what an experiment file on {kind} takes for fields that it does not give\n\n"
    return heading + tomli_w.dumps(recipe(base))


def recipe_fields(base: str, facts: Facts, given: Mapping[str, Any]) -> Tables:
    """Return the tables `data`, `net` and `train` of a recipe for data with these facts.

    `given` are the tables of the file. Fields that would have no meaning beside them are left out: no learning rate of
    delays where there are none, no clip of latent weights where weights are not binary, and so on.
    """
    held = recipe(base)
    rules = held["rules"]
    fields: Tables = {"data": {}, "net": dict(held["net"]), "train": dict(held["train"])}
    net, train = fields["net"], fields["train"]
    if "conv" in facts.layers:
        net["norm"] = "shared"
    if facts.steps is not None:
        net["beta"] = decays(facts.layers, facts.steps, rules)
        if "conv" not in facts.layers:
            net["delays"] = longest_delays(len(facts.layers), facts.steps, rules)
    if len(facts.layers) < 2:  # no hidden layer
        net.pop("spike_dropout", None)
    batch = _value(given, "train", "batch", batch_for(facts.samples, rules))
    if "conv" in facts.layers:
        rules = {**rules, "iterations": rules.get("camera_iterations", rules["iterations"])}
    epochs, repeat = epochs_for(facts.samples, batch, rules)
    if "repeat" in given.get("data", {}):
        epochs = rules["epochs"]
    train |= {"batch": batch, "epochs": epochs}
    fields["data"]["repeat"] = repeat
    if facts.validation:  # who brings samples to choose the epoch by wants it to be chosen
        train.pop("choose", None)
    _leave_out_what_has_no_meaning(fields, given)
    return fields


def lines_about(sources: Mapping[str, str], values: Mapping[str, Any]) -> list[str]:
    """Return lines for the user: the time bins that were found, and the recipe with what it made of the data.

    `sources` and `values` are those of a complete experiment.
    """
    lines = []
    if (found := sources.get("data.bin_ms", sources.get("data.steps", ""))).startswith("found: "):
        data = values["data"]
        lines.append(f"{data['steps']} time bins of {data['bin_ms']:g} ms ({found})")
    bases = {source.partition(":")[0] for source in sources.values()} & set(BASES)
    for base in sorted(bases):
        data, train = values["data"], values["train"]
        number = train["epochs"] * data["repeat"]
        passes = f"{number} {'pass' if number == 1 else 'passes'}, {data['repeat']} an epoch, batch {train['batch']}"
        delays = _delays_in_words(values["net"]["delays"])
        summed = sources.get("data.downsample", "").startswith(base) and (data["downsample"] or 1) > 1
        pixels = f", pixels summed over squares of {data['downsample']}" if summed else ""
        lines.append(f"recipe {base}: {passes}{delays}{pixels} (bitspike preset show {base})")
    if sources.get("net.theta") == MEASURED:
        lines.append(f"net.theta is {MEASURED.removeprefix('found: ')}")
    return lines


def longest_delays(layers: int, steps: int, rules: Mapping[str, float]) -> int | list[int]:
    """Return the longest delay of each layer's input: of all but the network's own, where there is a hidden layer.

    The first layer sees which inputs come at the same time, and random delays would take that apart.

    Examples:
        >>> from bitspike.experiments.recipes import longest_delays, recipe
        >>> rules = recipe("base/sequences")["rules"]
        >>> longest_delays(3, 100, rules), longest_delays(2, 40, rules), longest_delays(1, 40, rules)
        ([0, 25, 25], [0, 10], 10)
        >>> longest_delays(3, 1, rules)
        0
    """
    longest = int(min(rules["longest_delay"], round(rules["delay_share"] * steps)))
    return [0] + [longest] * (layers - 1) if longest and layers > 1 else longest


def _delays_in_words(delays: int | list[int]) -> str:
    """Return ", delays of hidden layers up to 25 steps", or nothing where there are none."""
    each = delays if isinstance(delays, list) else [delays]
    if not any(each):
        return ""
    steps = "1 step" if max(each) == 1 else f"{max(each)} steps"
    return f", delays{' of hidden layers' if each[0] == 0 else ''} up to {steps}"


def decays(layers: Sequence[str], steps: int, rules: Mapping[str, float]) -> list[Any]:
    """Return the decays of each layer: exp(-1 / (share * steps)), a time constant as a share of a sample's steps.

    Examples:
        >>> from bitspike.experiments.recipes import decays, recipe
        >>> rules = recipe("base/sequences")["rules"]
        >>> decays(["dense", "dense"], 100, rules)
        [{'low': 0.6, 'high': 0.97}, 0.95]
        >>> decays(["conv", "dense"], 50, rules)
        [0.81, 0.903]
    """

    def decay(share: float) -> float:
        return min(max(round(math.exp(-1 / (share * steps)), 3), 0.001), 0.999)  # learnt ones start inside (0, 1)

    hidden = {"low": decay(rules["fast_decay"]), "high": decay(rules["slow_decay"])}
    one = {"conv": decay(rules["conv_decay"]), "dense": hidden}
    return [*(one[layer] for layer in layers[:-1]), decay(rules["last_decay"])]


def batch_for(samples: int, rules: Mapping[str, float]) -> int:
    """Return the power of two nearest to a share of the samples, between the smallest and the largest batch.

    Examples:
        >>> from bitspike.experiments.recipes import batch_for, recipe
        >>> [batch_for(n, recipe("base/sequences")["rules"]) for n in (50, 1800, 4000, 60_000)]
        [32, 32, 128, 256]
    """
    wanted = 2 ** round(math.log2(max(samples / rules["samples_a_row"], 1)))
    return int(min(max(wanted, rules["smallest_batch"]), rules["largest_batch"]))


def epochs_for(samples: int, batch: int, rules: Mapping[str, float]) -> tuple[int, int]:
    """Return about `epochs` epochs, and the passes of each, that give about `iterations` in all.

    There are no fewer passes than `fewest_passes`. Passes of an epoch are whole, so that the number of epochs makes up
    for the rounding. A file that gives fewer epochs keeps the passes of each, and trains for a shorter time.

    Examples:
        >>> from bitspike.experiments.recipes import epochs_for, recipe
        >>> rules = recipe("base/sequences")["rules"]
        >>> epochs_for(1800, 32, rules)  # 18 x 3 passes of 57 iterations: 3,078
        (18, 3)
        >>> epochs_for(3200, 64, rules)  # 20 x 3 passes of 50 iterations
        (20, 3)
        >>> epochs_for(60_000, 256, rules)
        (20, 1)
    """
    passes = max(rules["iterations"] / -(-samples // batch), rules["fewest_passes"])
    repeat = max(1, round(passes / rules["epochs"]))
    return max(1, round(passes / repeat)), repeat


def downsample_for(shape: Sequence[int], rules: Mapping[str, float]) -> int:
    """Return the power of two that brings the longer side of a camera's frames to `largest_side` pixels or fewer.

    A square of such a side fits into the frame: of a shorter side at least one pixel is left.

    Examples:
        >>> from bitspike.experiments.recipes import downsample_for, recipe
        >>> [downsample_for((2, side, side), recipe("base/sequences")["rules"]) for side in (34, 64, 128, 720)]
        [1, 2, 4, 32]
        >>> downsample_for((2, 4, 640), recipe("base/sequences")["rules"])
        4
    """
    if len(shape) != 3 or "largest_side" not in rules:
        return 1
    wanted = math.ceil(math.log2(max(shape[1:]) / rules["largest_side"]))
    return int(2 ** max(0, min(wanted, math.floor(math.log2(min(shape[1:]))))))


def _leave_out_what_has_no_meaning(fields: Tables, given: Mapping[str, Any]) -> None:
    """Remove fields of the recipe that belong to something which the file has set otherwise, in place."""
    net, train = fields["net"], fields["train"]
    binary = _value(given, "net", "binary", True)
    dense_norm, norm = _value(given, "net", "dense_norm", True), _value(given, "net", "norm", net.get("norm", "none"))
    if "beta" in given.get("net", {}):  # decays that a file gives stay as they are
        net.pop("learn_beta", None)
    rates = dict(train.get("rates", {}))
    delays = _value(given, "net", "delays", net.get("delays", 0))
    if not (any(delays) if isinstance(delays, list | tuple) else delays):
        rates.pop("delays", None)
    if not dense_norm and norm == "none":
        rates.pop("norms", None)
        train.pop("recalibrate", None)
    train["rates"] = rates
    if not rates:
        del train["rates"]
    if not binary:
        for table, field in ((net, "clip"), (train, "latent_clip")):
            table.pop(field, None)
    if _value(given, "train", "schedule", train["schedule"]) != "decay":
        train.pop("warmup")
    if _value(given, "train", "half_period", None) is not None and "schedule" not in given.get("train", {}):
        for field in ("schedule", "warmup"):
            train.pop(field, None)
    falls = _value(given, "train", "schedule", train.get("schedule")) == "decay"
    if not falls or _value(given, "train", "patience", None) is not None:
        train.pop("choose", None)
    if _value(given, "train", "loss", train["loss"]) != "cross_entropy":
        for field in ("logit_scale", "label_smoothing"):
            train.pop(field, None)


def _value(given: Mapping[str, Any], table: str, field: str, otherwise: Any) -> Any:
    """Return the file's value of a field, or `otherwise` where it has none."""
    held = given.get(table)
    return held.get(field, otherwise) if isinstance(held, Mapping) else otherwise
