"""Completion of experiment files: what a file leaves out is found from its data, or taken from a base recipe.

A file that gives net.beta, net.slope and net.theta describes its own neurons: it takes no recipe unless it names one.
Any other file takes the recipe for the kind of its data. The completed tables hold every number, so that a run's
experiment.toml needs no recipe and no data to be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bitspike.config import problems_of, shown, validated
from bitspike.data.config import DataConfig
from bitspike.experiments.default_network import default_notation, dense_notation
from bitspike.experiments.recipes import (
    BASES,
    MEASURED,
    NO_BASE,
    Facts,
    Tables,
    downsample_for,
    recipe,
    recipe_fields,
)

if TYPE_CHECKING:
    from bitspike.data.samples import Dataset
    from bitspike.experiments.schema import Experiment

NEURONS = ("beta", "slope", "theta")  # a file that gives these is complete without a recipe


def takes_base(values: Mapping[str, Any]) -> bool:
    """Return whether the values take fields from a recipe: they name one, or do not describe their own neurons."""
    if "base" in values:
        return bool(values["base"] != NO_BASE)
    return not set(NEURONS) <= set(_table(values, "net"))


def with_stand_ins(values: Mapping[str, Any]) -> Tables:
    """Return the values with some value in each field that completion will fill, so that others can be checked."""
    filled = _without(values, "base")
    net: Tables = {}
    train: Tables = {}
    if "notation" not in _table(values, "net"):
        net["notation"] = "1-1"
        if isinstance(filled.get("net"), Mapping):
            filled["net"] = _without(filled["net"], "hidden")
    if takes_base(values):
        net |= dict.fromkeys(NEURONS, 0.5)
        train["lr"] = 1.0
    return _merged({"net": net, "train": train}, filled)


def completed(
    values: Mapping[str, Any],
    where: str,
    model: type[Experiment],
    wrong: Callable[[str, str], str],
    dataset: Dataset | None = None,
) -> Tables:
    """Return the tables of an experiment file with every field that it leaves out and must not.

    The data is opened only if something depends on it; `dataset` are samples that were passed from Python. Values that
    are not valid come back as they are, with stand-ins for what is missing: validation then reports what is wrong.
    `model` is the experiment's. `wrong(key, text)` gives the message about a field.
    """
    base = values.get("base")
    if base is not None and base not in (*BASES, NO_BASE):
        known = ", ".join(map(repr, (*BASES, NO_BASE)))
        raise ValueError(wrong("base", f"base must be one of {known}, but is {shown(base)}"))
    if not _leaves_something_out(values):
        return _without(values, "base")
    stand_ins = with_stand_ins(values)
    hidden = _hidden(_table(values, "net").get("hidden"), wrong)
    if problems_of(model, stand_ins):
        return stand_ins
    tables, data = _filled(values, hidden, where, dataset)
    if data is None or not takes_base(values):
        return tables
    return _with_fitting_theta(tables, values, data, model, where)


def _leaves_something_out(values: Mapping[str, Any]) -> bool:
    """Return whether the values need a network, a recipe, or time bins for events of the user's own."""
    data = _table(values, "data")
    if takes_base(values) or "notation" not in _table(values, "net"):
        return True
    return "file" in data and not {"bin_ms", "steps"} <= set(data)


def _filled(
    values: Mapping[str, Any], hidden: list[int] | None, where: str, dataset: Dataset | None
) -> tuple[Tables, Dataset | None]:
    """Return valid values with what they leave out, found from their data; and the data, if it had to be opened."""
    from bitspike.data.catalog import labels_are_times
    from bitspike.data.datasets import open_dataset, with_bins

    config = validated(DataConfig, _table(values, "data"), where)
    only_bins = not takes_base(values) and "notation" in _table(values, "net")
    try:
        config, bins_from = with_bins(config)
    except (ValueError, OSError):
        if only_bins:  # an experiment can be read without its data; opening the data says what is wrong
            return _without(values, "base"), None
        raise
    found: Tables = {"data": {}, "net": {}, "sources": {}}
    if bins_from:
        found["data"] |= {"bin_ms": config.bin_ms, "steps": config.steps}
        found["sources"] |= {f"data.{key}": bins_from for key in ("bin_ms", "steps") if key not in values["data"]}
    if only_bins:
        return _merged(found, _without(values, "base")), None
    if labels_are_times(config.name):
        raise ValueError(
            f"{where}: no recipe is for the task {config.name!r}; give net.notation, net.beta, net.slope, net.theta "
            "and train.lr"
        )
    data = open_dataset(config) if dataset is None else dataset
    base = _base_for(values, data, where)
    if "notation" not in _table(values, "net") and base is not None:
        data, config = _small_enough(data, config, base, found)
    found["net"]["notation"] = _notation(values, hidden, data, base)
    if base is not None:
        found = _merged(found, _recipe_for(values, found, data, base))
    return _merged(found, _without({**values, "net": _without(_table(values, "net"), "hidden")}, "base")), data


def _base_for(values: Mapping[str, Any], data: Dataset, where: str) -> str | None:
    """Return the recipe for the kind of data, or None if the values take none; raise if they name another one."""
    if not takes_base(values):
        return None
    kind, base = ("images", "base/images") if data.train.steps is None else ("sequences", "base/sequences")
    if (named := values.get("base", base)) != base:
        raise ValueError(f"{where}: base = {named!r} is not for {data.title}, which holds {kind}; use {base!r}")
    return base


def _small_enough(data: Dataset, config: DataConfig, base: str, found: Tables) -> tuple[Dataset, DataConfig]:
    """Return the data with a camera's frames down-sampled to a size that trains on a CPU; `found` notes by how much."""
    from bitspike.data.datasets import binning_of, open_dataset

    factor = downsample_for(data.shape, recipe(base)["rules"]) if _is_binned_here(data, config) else 1
    if factor == 1 or config.downsample is not None:
        return data, config
    config = config.model_copy(update={"downsample": factor * binning_of(config).downsample})
    found["data"]["downsample"] = config.downsample
    found["sources"]["data.downsample"] = _source(base, "data.downsample")
    return open_dataset(config), config


def _is_binned_here(data: Dataset, config: DataConfig) -> bool:
    """Return whether the samples are events that this experiment bins; not images, nor spikes in steps."""
    if data.train.steps is None or config.passed is not None:
        return False
    return config.file is None or config.bin_ms is not None


def _notation(values: Mapping[str, Any], hidden: list[int] | None, data: Dataset, base: str | None) -> str:
    """Return the file's notation, that of its hidden widths, or the recipe's for such data."""
    if "notation" in (net := _table(values, "net")):
        return str(net["notation"])
    if hidden is not None:
        return dense_notation(data.shape, hidden, data.classes)
    rules = recipe(base or BASES[0])["rules"]
    return default_notation(data.shape, rules["hidden"], rules["filters"], data.classes)


def _recipe_for(values: Mapping[str, Any], found: Tables, data: Dataset, base: str) -> Tables:
    """Return a recipe's fields for the data and the network, with their sources."""
    from bitspike.nn.notation import Conv, parse

    try:
        layers, _ = parse(found["net"]["notation"], data.shape)
    except ValueError:  # a notation that does not fit the data: reported when the network is built
        return recipe_fields(base, Facts(len(data.train), data.train.steps, ["dense"]), values)
    kinds = ["conv" if isinstance(layer, Conv) else "dense" for layer in layers]
    fields = recipe_fields(
        base, Facts(_count_training(values, data), data.train.steps, kinds, data.valid is not None), values
    )
    return {**fields, "sources": _sources(base, fields, values)}


def _with_fitting_theta(
    tables: Tables, values: Mapping[str, Any], data: Dataset, model: type[Experiment], where: str
) -> Tables:
    """Return the tables with measured thresholds where the values take out the batch norm that the recipe's are for."""
    net = _table(values, "net")
    if "theta" in net or not {"norm", "dense_norm"} & set(net) or problems_of(model, tables):
        return tables
    from bitspike.experiments.suggested import theta_without_norm

    theta = theta_without_norm(validated(model, tables, where), data, tables["net"]["theta"])
    if theta is None:
        return tables
    return _merged(tables, {"net": {"theta": theta}, "sources": {"net.theta": MEASURED}})


def _count_training(values: Mapping[str, Any], data: Dataset) -> int:
    """Return about how many samples train: without those that choose the epoch, where they come from the same file."""
    if _table(values, "train").get("protocol") == "paper" or data.valid is not None:
        return len(data.train)
    usual: float = DataConfig.model_fields["validation_share"].default
    share: float = _table(values, "data").get("validation_share", usual)
    return max(1, round((1 - share) * len(data.train)))


def _sources(base: str, fields: Tables, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the sources of the fields that come from the recipe, the network's notation included."""
    taken = [f"{table}.{field}" for table in ("data", "net", "train") for field in fields[table]]
    if not {"notation", "hidden"} & set(_table(values, "net")):
        taken.append("net.notation")
    return {key: _source(base, key) for key in taken if key.split(".")[1] not in _table(values, key.split(".")[0])}


def _source(base: str, key: str) -> str:
    return f"{base}: {recipe(base)['sources'][key]}"


def _hidden(given: object, wrong: Callable[[str, str], str]) -> list[int] | None:
    """Return the widths of hidden layers, checked."""
    if given is None:
        return None
    if (
        not isinstance(given, list)
        or not given
        or any(isinstance(width, bool) or not isinstance(width, int) or not 1 <= width < 2**31 for width in given)
    ):
        text = f"net.hidden: must be a list of widths, such as [256, 256], but is {shown(given)}"
        raise ValueError(wrong("net.hidden", text))
    return given


def _table(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    held = values.get(name)
    return held if isinstance(held, Mapping) else {}


def _without(table: Mapping[str, Any], key: str) -> Tables:
    """Return a table without one of its keys."""
    return {name: value for name, value in table.items() if name != key}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tables:
    """Return the tables of both; where both have a field, that of `above`. Tables within tables are merged, too."""
    return _laid_over(below, {key: value for key, value in above.items() if value is not None})


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tables:
    """Return the fields of both, those of `above` where both have one; also where that is None."""
    merged = dict(below)
    for key, value in above.items():
        held = merged.get(key)
        tables = isinstance(held, Mapping) and isinstance(value, Mapping)
        merged[key] = _laid_over(held, value) if tables else value  # type: ignore[arg-type]
    return merged
