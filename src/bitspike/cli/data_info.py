"""The command `bitspike data info`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitspike.cli.console import bars, baselines_in_words, echo, echo_json, say
from bitspike.cli.data import sets
from bitspike.cli.data_text import show
from bitspike.cli.options import AsJson, Baselines

if TYPE_CHECKING:
    from bitspike.analysis.baselines import Baselines as FoundBaselines
    from bitspike.data.config import DataConfig
    from bitspike.data.finding import Finding
    from bitspike.data.profiles import Profile, SplitProfile
    from bitspike.data.samples import Dataset, Samples
    from bitspike.experiments.schema import Experiment
    from bitspike.train.config import TrainConfig


@sets.command()
def info(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE.toml", help="A dataset (`bitspike data list`), or your own experiment file."),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value of the data table, such as bin_ms=2; repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Draw a few samples and the figures into this PNG file.")] = None,
    baselines: Baselines = False,
    as_json: AsJson = False,
) -> None:
    """Read a dataset; print what is in each split, what is lost in binning, and what looks like a mistake."""
    from bitspike.analysis.picture_files import require_picture
    from bitspike.data.catalog import CATALOG, drawn_from_seed
    from bitspike.data.data_tables import is_toml
    from bitspike.data.datasets import open_dataset
    from bitspike.data.group_notes import group_notes
    from bitspike.data.mistakes import findings
    from bitspike.data.profiles import profile
    from bitspike.data.time_notes import time_notes
    from bitspike.experiments.beside import require_classes

    if out is not None:
        require_picture(out)
    config = _config(name, set_ or [])
    bins_are_found = config.bin_ms is None
    spec = _experiment(Path(name), set_ or []) if is_toml(name) else None
    config = config if spec is None else spec.data
    if baselines:
        require_classes(config.name)
    began = time.perf_counter()
    with bars() as begin:
        data = open_dataset(config, progress=begin)
    seconds = time.perf_counter() - began
    training = _training(Path(name) if is_toml(name) else None)
    splits, refused = _splits(config, training, data) if is_toml(name) else (_given(data), [])
    shown = profile(data, splits, class_weights=training.class_weights != "none")
    found = refused + ([] if drawn_from_seed(config.name) else findings(shown))
    if config.file is None:  # the splits of a published set are as they are
        found = [finding for finding in found if finding.cause != "shared groups"]
    chooses = training.choose == "best"
    notes = [] if config.file is None else group_notes(shown, from_file=data.valid is not None, chooses=chooses)
    notes += time_notes(shown) if config.file is not None and bins_are_found else []
    if out is not None:
        _draw(data, splits, shown, out)
    beside = _baselines(splits) if baselines else None
    entry = next((each for each in CATALOG.values() if each.name == config.name), None)
    values: dict[str, Any] = {"name": data.name, "title": data.title, **_other_files(config), "edition": data.edition}
    if entry is not None:
        values |= {key: getattr(entry, key) for key in ("what", "licence", "homepage", "citation")}
    values |= {"classes": data.classes, "shape": list(data.shape), "load_seconds": round(seconds, 3)}
    if as_json:
        values |= {split: _as_json(shown, split, samples) for split, samples in splits.items()}
        values["notes"] = notes
        values["warnings"] = [asdict(finding) for finding in found]
        if beside is not None:
            values["baselines"] = asdict(beside)
        echo_json(values)
        return
    show(
        values,
        shown,
        [f"note: {each}" for each in notes] + [f"warning: {each}" for each in found],
        None if spec is None else spec.net.steps,
    )
    if beside is not None:
        echo(f"baselines    {baselines_in_words(beside)}")
    if out is not None:
        say(f"the figure is in {out}")


def _config(name: str, settings: list[str]) -> DataConfig:
    """Return the settings of a dataset by its name, or of a TOML file's table [data]."""
    from bitspike.config import validated
    from bitspike.data.catalog import CATALOG, lookup
    from bitspike.data.config import FILES, DataConfig
    from bitspike.data.data_tables import absolute, is_toml, read_data_config, toml_lines
    from bitspike.experiments.settings import parse_setting

    options = {key.removeprefix("data."): value for key, value in map(parse_setting, settings)}
    if is_toml(name):
        options |= {key: absolute(Path(), options[key], f"--set {key}") for key in FILES if key in options}
        return read_data_config(Path(name), options, " with --set")
    if Path(name).is_file():
        raise ValueError(f"data info: {name} is not a TOML file; {toml_lines(name)}")
    lookup(name, CATALOG)
    if "name" in options:
        raise ValueError(f"data info: the name is the argument, {name}; leave --set name out")
    return validated(DataConfig, {"name": name, **options}, f"data info {name}")


def _experiment(path: Path, settings: list[str]) -> Experiment | None:
    """Return the whole experiment, with what a recipe adds; None if the file is not one yet."""
    from bitspike.experiments.schema import read_experiment

    try:
        return read_experiment(path, [f"data.{setting.removeprefix('data.')}" for setting in settings])
    except (ValueError, OSError):  # what is wrong with the data itself is said when it is opened
        return None


def _other_files(config: DataConfig) -> dict[str, str]:
    """Return the user's own files other than the training file, which is the title, by their field."""
    from bitspike.data.own_paths import called, own_paths

    return {} if config.file is None else {key: called(of) for key, of in own_paths(config).items() if key != "file"}


def _given(data: Dataset) -> dict[str, Samples]:
    """Return the samples of a built-in set by their split."""
    return {"train": data.train, "test": data.test}


def _training(path: Path | None) -> TrainConfig:
    """Return what a file's table [train] says about the use of samples; the rest of it may not be written yet."""
    from bitspike.data.toml import read_toml
    from bitspike.train.config import TrainConfig

    table = None if path is None else read_toml(path).get("train")
    given = table if isinstance(table, dict) else {}
    return TrainConfig.model_construct(
        **{key: given[key] for key in ("protocol", "class_weights", "choose") if key in given}
    )


def _splits(config: DataConfig, training: TrainConfig, data: Dataset) -> tuple[dict[str, Samples], list[Finding]]:
    """Return the splits that training would use; if it could hold none out, the given ones and the reason."""
    from bitspike.data.finding import Finding
    from bitspike.experiments.held_out import splits
    from bitspike.experiments.schema import Experiment

    spec = Experiment.model_construct(data=config, train=training)
    try:
        return {str(split): samples for split, samples in splits(spec, data).items()}, []
    except ValueError as error:
        evidence, _, remedy = str(error).rpartition("; ")
        return _given(data), [Finding("no validation samples", "valid", evidence, remedy)]


def _baselines(splits: Mapping[str, Samples]) -> FoundBaselines:
    """Return what simple classifiers reach on the test samples, with a bar for the fits."""
    from bitspike.analysis.baselines import baselines, fit_count

    with bars() as begin:
        fitted = begin("logistic regression", fit_count(splits["train"]))
        return baselines(splits["train"], splits["test"], on_fit=fitted)


def _draw(data: Dataset, splits: Mapping[str, Samples], shown: Profile, out: Path) -> None:
    """Draw the figure: one sample of each class, as many as there is room for."""
    from bitspike.analysis.data_figure import MOST_SAMPLES, DataFigure, SamplePanel, draw_data
    from bitspike.data.samples import Images

    labels = splits["train"].labels.cpu()
    first = [(int(label), int((labels == label).nonzero()[0])) for label in labels.unique()[:MOST_SAMPLES]]
    panels = [SamplePanel(f"class {shown.class_names[label]}", splits["train"][row][0]) for label, row in first]
    events = {name: split.events for name, split in shown.splits.items() if split.events is not None}
    figure = DataFigure(
        f"{data.title}: {len(data.train):,} / {len(data.test):,} samples of {data.shape}",
        panels,
        isinstance(splits["train"], Images),
        shown.class_names,
        {name: split.by_class for name, split in shown.splits.items()},
        {name: each.by_step for name, each in events.items()},
        {name: each.by_channel for name, each in events.items()},
        events["train"].bin_ms if events else None,
    )
    draw_data(figure, out)


def _as_json(shown: Profile, split: str, samples: Samples) -> dict[str, Any]:
    """Return a split's figures as JSON holds them; those of single steps and channels only where they are few."""
    each: SplitProfile = shown.splits[split]
    values: dict[str, Any] = {"samples": each.samples, "steps": samples.steps, **samples.figures()}
    values["by_class"] = dict(zip(shown.class_names, each.by_class, strict=True))
    values["majority_class"], values["majority_share"] = shown.class_names[each.majority[0]], each.majority[1]
    values |= {"empty_samples": each.empty, "also_training_samples": each.repeated}
    if each.groups is not None:
        values[shown.group_names or "groups"] = list(each.groups)
    if each.images is not None:
        values["pixels"] = asdict(each.images)
    if (events := each.events) is not None:
        channel, share = events.busiest
        values["events"] = {
            "a_sample": asdict(events.per_sample),
            "a_step": events.by_step.tolist(),
            "a_channel": asdict(events.per_channel),
            "channels_without_events": events.silent_channels,
            "busiest_channel": {"channel": channel, "share": share},
            "first_step": asdict(events.begins),
            "steps_used": asdict(events.steps_used),
            "steps_until_95_percent": events.over_at,
            "lost": None if events.lost is None else dict(events.lost),
            "samples_that_lose_their_end": events.longer,
            "bin_ms": events.bin_ms,
            "duration_ms": None if events.duration_ms is None else asdict(events.duration_ms),
        }
    return values
