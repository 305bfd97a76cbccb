"""A run's folder before training: check what it holds, lock it, and write what is about to be trained."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from bitspike.data.own_paths import own_edition, own_paths
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import differences, samples_digests
from bitspike.experiments.provenance import versions
from bitspike.experiments.saved import is_run
from bitspike.experiments.schema import Experiment, as_toml, read_run_experiment
from bitspike.files import locked, require_folder, write_text
from bitspike.train.loop import Trainer
from bitspike.train.run_folder import RunFolder, trial_folders
from bitspike.train.world import World


def resumable(out: Path) -> bool:
    """Return whether `out`, or a trial in it, is complete or has a checkpoint to resume from."""
    return bool(complete(out)) or any(RunFolder(each).last.is_file() for each in (out, *trial_folders(out)))


def complete(out: Path) -> list[Path]:
    """Return the runs in `out` that have ended: `out` itself, or trials in it."""
    return [each for each in (out, *trial_folders(out)) if is_run(each) and RunFolder(each).summary.is_file()]


def locked_folder(folder: RunFolder, options: RunOptions, world: World) -> AbstractContextManager[None]:
    """Keep other commands out of the folder until the run ends; the first process does so for all."""

    def busy() -> None:
        raise ValueError(f"{folder.path} is in use by another process; wait for it, or {options.another_folder}")

    return locked(folder.lock, busy) if world.first else nullcontext()


def prepare_folder(spec: Experiment, folder: RunFolder, options: RunOptions, world: World) -> dict[str, Any] | None:
    """Make the folder ready for a run of `spec`; return the summary if that run is complete already.

    Raise a ValueError if the folder holds something else, or a run that `options` do not allow to resume.
    """
    require_folder(folder.path, options.another_folder, written=False)
    there = folder.experiment.is_file()
    strange = folder.path.is_dir() and set(folder.path.iterdir()) - {folder.lock, *folder.partial()}
    if strange and not there and world.first:
        if (folder.path / "trial-0").is_dir():
            trials = "--trials" if options.dataset is None else "trials=N"
            raise ValueError(
                f"{folder.path} holds trials; give {trials} to go on with them, or {options.another_folder}"
            )
        raise ValueError(f"{folder.path} is not empty and holds no run; {options.another_folder}")
    if there and not options.resume:
        go_on = "--resume" if options.dataset is None else "resume=True"
        raise ValueError(
            f"{folder.path} holds a run already; add {go_on} to go on with it, or {options.another_folder}"
        )
    if there and (done := _complete_run(spec, folder, options)) is not None:
        if int(done["epochs"]) > spec.train.epochs:
            options.listener.note(f"{folder.path} is complete, after {done['epochs']} epochs, and is shown as it is")
        return done
    if world.first:
        require_folder(folder.path, options.another_folder)
    return None


def _complete_run(spec: Experiment, folder: RunFolder, options: RunOptions) -> dict[str, Any] | None:
    """Return the summary of the run in the folder if nothing is left to do; raise if it is not a run of `spec`."""
    before = read_run_experiment(folder.experiment)
    changed = differences(before, spec)
    if changed:
        settings = "the --set" if options.dataset is None else "the arguments"
        raise ValueError(
            f"{folder.path} holds another experiment: {'; '.join(changed[:4])}; {options.another_folder}, "
            f"or repeat {settings} it was made with"
        )
    done = folder.read_summary(sealed=True)
    if done is None:
        return None
    if not _may_go_on(done, before, spec):
        _require_its_data(done, spec, folder, options)
        return done
    if not folder.last.is_file():
        raise ValueError(
            f"{folder.path} is complete after {done['epochs']} epochs and cannot go on, as its {folder.last.name} "
            f"is gone; {options.another_folder}"
        )
    return None


def _may_go_on(done: Mapping[str, Any], before: Experiment, spec: Experiment) -> bool:
    """Return whether a complete run can continue, because it now has more epochs or more patience."""
    if done["ended"] == "patience":
        longer = spec.train.patience is None or spec.train.patience > (before.train.patience or 0)
        return longer and int(done["epochs"]) < spec.train.epochs
    return done["ended"] == "epochs" and int(done["epochs"]) < spec.train.epochs


def _require_its_data(done: Mapping[str, Any], spec: Experiment, folder: RunFolder, options: RunOptions) -> None:
    """Raise if the user's own samples have changed since the complete run was made, by their checksums.

    A complete run can be shown even if its files are gone.
    """
    if options.dataset is not None and samples_digests(spec, options.dataset) != done.get("samples_sha256"):
        raise ValueError(
            f"{folder.path} holds another experiment: it was made on other samples or groups than those passed now; "
            f"pass the same ones, or {options.another_folder}"
        )
    try:
        files = [path for paths in own_paths(spec.data).values() for path in paths]
    except FileNotFoundError:
        return
    if not files:
        return
    if (found := own_edition(spec.data)) != done.get("edition"):
        raise ValueError(
            f"{folder.path} holds another experiment: it was made on {done.get('edition')}, but "
            f"{' and '.join(map(str, files))} hold {found}; put the old data back, or choose another --out"
        )


def write_experiment(spec: Experiment, trainer: Trainer, world: World, above: RunFolder | None) -> None:
    """Write experiment.toml into the run's folder, and remove files that are no longer true.

    Call it as late as possible, so that a run that cannot begin leaves no files. `above` is the folder of all trials,
    if the run is one of them.
    """
    folder = trainer.folder
    world.wait()
    if not world.first:
        return
    for left in folder.partial():
        left.unlink(missing_ok=True)
    folder.summary.unlink(missing_ok=True)  # a run that goes on is not complete
    if above is not None:  # nor are the trials of which it is one
        above.summary.unlink(missing_ok=True)
    if not trainer.progress.best_epoch:  # the network of an epoch that is not in the run
        folder.best.unlink(missing_ok=True)
    for left in folder.events() if not trainer.progress.step else ():
        left.unlink(missing_ok=True)
    again = "bitspike train experiment.toml" if spec.data.passed is None else "bitspike.train_on(dataset, OUT)"
    heading = f"bitspike {versions()['bitspike']}; run again with: {again}"
    write_text(folder.experiment, as_toml(_with_found_files(spec), heading))


def _with_found_files(spec: Experiment) -> Experiment:
    """Return the experiment with the files that its patterns stand for: a file that is added later is not the run's."""
    found: dict[str, Path | tuple[Path, ...]] = {
        field: paths[0] if len(paths) == 1 and isinstance(getattr(spec.data, field), Path) else tuple(paths)
        for field, paths in own_paths(spec.data).items()
    }
    return spec.model_copy(update={"data": spec.data.model_copy(update=found)})
