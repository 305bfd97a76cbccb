"""Training and evaluation in Python, on samples that are passed from there: no file names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from bitspike.data.config import BINNING
from bitspike.data.mistakes import findings
from bitspike.data.profiles import profile
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import RunOptions, pick_device
from bitspike.experiments.curves import draw_curves
from bitspike.experiments.data_warnings import FINDINGS
from bitspike.experiments.held_out import Split, splits
from bitspike.experiments.recipes import lines_about
from bitspike.experiments.run_data import require_sound
from bitspike.experiments.runs import Summary, train_run, train_trials
from bitspike.experiments.saved import Evaluated, evaluate_run
from bitspike.experiments.schema import Experiment, as_values, experiment_on
from bitspike.nn import SpikingNetwork
from bitspike.train.progress import Listener
from bitspike.train.run_folder import Row
from bitspike.train.world import World

Say = Callable[[str], object]

# Fields of [data] that findings name; for passed samples these are options of the function that bins them.
FIELDS = re.compile(rf"\bdata\.({'|'.join((*BINNING, 'time_unit', 'time_origin', 'sensor'))})\b")


def train_on(
    dataset: Dataset,
    out: str | Path,
    *,
    net: Mapping[str, Any] | None = None,
    train: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    base: str | None = None,
    seed: int = 0,
    trials: int | None = None,
    device: str | torch.device = "auto",
    resume: bool = False,
    say: Say | None = print,
) -> Summary:
    """Train a network on a dataset, as `bitspike train` does, and return what the run's summary.json holds.

    The folder `out` then has the files of a run, and `bitspike.load_run(out)` gives the network. `net`, `train` and
    `data` are the tables of an experiment file, such as `net={"hidden": [64]}` and `train={"epochs": 5}`. What they
    leave out comes from `base`, by default the recipe for the kind of samples: `"base/sequences"` or `"base/images"`.
    `resume` goes on with the run in `out`; the samples must be the same. `say` is called with lines about the progress;
    None for silence.

    `trials` trains so many times, with seeds `seed`, `seed + 1` and so on, into the folders `trial-0`, `trial-1` in
    `out`. Then the summary is that of all: "accuracies" in place of "accuracy", with "best", "mean" and "sigma".

    Examples:
        >>> import tempfile
        >>> import torch
        >>> import bitspike
        >>> labels = torch.arange(40) % 2
        >>> frames = (torch.rand(40, 20, 6) < 0.1 + 0.3 * labels.view(-1, 1, 1)).int()  # class 1 has more spikes
        >>> data = bitspike.data.dataset_from_torch(list(zip(frames, labels)), name="rates")
        >>> quick = {"net": {"hidden": [8]}, "train": {"epochs": 1}, "data": {"repeat": 1}}
        >>> with tempfile.TemporaryDirectory() as out:
        ...     summary = bitspike.train_on(data, out, **quick, say=None)
        ...     net = bitspike.load_run(out)
        >>> summary["samples"]
        {'train': 28, 'valid': 4, 'test': 8}
        >>> net.notation
        '6-8-2'
    """
    require_sound(dataset, "train_on")
    _require_arguments(out, seed, trials)
    say = say if say is not None and World.rank_here() == 0 else _silent
    tables = {"net": net, "train": train, "data": data, "base": base}
    given = {name: dict(held) if isinstance(held, Mapping) else held for name, held in tables.items() if held}
    spec = experiment_on(dataset, {**given, "seed": seed}, "train_on")
    options = RunOptions(
        device=pick_device(str(device), where="train_on"),
        resume=resume,
        command="bitspike.train_on",
        dataset=dataset,
        listener=_listener(say),
        started=_started(say),
    )
    out = Path(out)
    done = train_run(spec, out, options) if trials is None else train_trials(spec, out, trials, options)
    if done is None:
        raise RuntimeError("train_on: the training was interrupted; resume=True goes on with it")
    if World.rank_here() == 0:
        _draw_curves(out, say)
    return done


def evaluate_on(
    dataset: Dataset,
    run: str | Path,
    *,
    split: Split = "test",
    device: str | torch.device = "auto",
    baselines: bool = False,
) -> Evaluated:
    """Evaluate the best network of a run on a split of the dataset that it was trained on.

    `result.accuracy` is the accuracy; `classification` has the figures of each class, and `baselines` those of simple
    classifiers, if they are asked for. `warnings` say if the samples are not those of the run.

    Examples:
        >>> import tempfile
        >>> import torch
        >>> import bitspike
        >>> labels = torch.arange(40) % 2
        >>> frames = (torch.rand(40, 20, 6) < 0.1 + 0.3 * labels.view(-1, 1, 1)).int()
        >>> data = bitspike.data.dataset_from_torch(list(zip(frames, labels)), name="rates")
        >>> quick = {"net": {"hidden": [8]}, "train": {"epochs": 1}, "data": {"repeat": 1}}
        >>> with tempfile.TemporaryDirectory() as out:
        ...     summary = bitspike.train_on(data, out, **quick, say=None)
        ...     done = bitspike.evaluate_on(data, out)
        >>> done.result.accuracy == summary["accuracy"], done.warnings
        (True, [])
    """
    require_sound(dataset, "evaluate_on")
    options = RunOptions(device=pick_device(str(device), where="evaluate_on"), dataset=dataset)
    return evaluate_run(Path(run), split, options, baselines=baselines)


def _require_arguments(out: Any, seed: Any, trials: Any) -> None:
    """Raise unless `out` is a path, and `seed` and `trials` are whole numbers; no trials are None."""
    if not isinstance(out, str | PathLike):
        raise TypeError(f"train_on: out must be the path of a folder, but is {out!r}")
    if seed is None:
        raise ValueError("train_on: seed must be a whole number, but is None; leave it out for 0")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise ValueError(
            f"train_on: trials must be a whole number of at least 1, but is {trials!r}; leave it out for a single run"
        )


def _silent(line: str) -> None:
    """Say nothing."""


def _draw_curves(out: Path, say: Say) -> None:
    """Draw curves.png where matplotlib is installed; the run is complete, whether that works or not."""
    try:
        draw_curves(out)
    except (OSError, ImportError) as error:
        say(f"warning: curves.png was not drawn: {error}")


def _listener(say: Say) -> Listener:
    """Return a listener that says one line for each epoch, and each warning."""

    def epoch_ends(row: Row) -> None:
        on = "test" if "test_accuracy" in row else "valid"
        shares = f"train {row['train_accuracy']:.2%}  {on} {row[f'{on}_accuracy']:.2%}"
        say(f"epoch {row['epoch']:>3}  {shares}  loss {row[f'{on}_loss']:.4g}")

    return Listener(epoch_ends=epoch_ends, warning=lambda message: say(f"warning: {message}"), note=say)


def _as_options(told: Sequence[str]) -> Iterator[str]:
    """Yield the lines with options of from_torch in place of fields of [data], and a line that says so."""
    options: dict[str, None] = {}  # in their order

    def option(field: re.Match[str]) -> str:
        name = "steps" if field[1] == "test_steps" else field[1]
        options[name] = None
        return name

    yield from [FIELDS.sub(option, line) for line in told]
    if options:
        those = "is an option" if len(options) == 1 else "are options"
        yield f"{' and '.join(options)} {those} of bitspike.data.dataset_from_torch and from_torch, not of train_on"


def _started(say: Say) -> Callable[[Experiment, Dataset, SpikingNetwork, Path], object]:
    """Return a function that says what is trained, and what looks like a mistake in the samples."""

    def lines(spec: Experiment, data: Dataset, net: SpikingNetwork, out: Path) -> Iterator[str]:
        kind = "1-bit" if spec.net.binary else "float32"
        yield f"{spec.name}: {net.notation}, {kind} weights, seed {spec.seed} -> {out}"
        yield from lines_about(spec.sources, as_values(spec))
        parts = {str(split): samples for split, samples in splits(spec, data).items()}
        # the other findings are warnings of the run
        told = [f"warning: {each}" for each in findings(profile(data, parts)) if each.cause not in FINDINGS]
        yield from _as_options(told)

    def started(spec: Experiment, data: Dataset, net: SpikingNetwork, out: Path) -> None:
        for line in lines(spec, data, net, out):
            say(line)

    return started
