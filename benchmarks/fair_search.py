"""Does annealing win when every variant is tuned alike? A search for each, its best trials trained long, one table.

    python benchmarks/fair_search.py fashion|shd --out DIR [--stage search|long|report] [--trials 500] [--epochs N]
        [--best 3] [--seeds 5] [--long 110] [--workers 4] [--together 10] [--processes 1] [--minutes M]
        [--pack FILE.tar.xz] [--unpack FILE.tar.xz] [--only VARIANTS] [--set KEY=VALUE ...]

The variants are theta = 1, a fixed theta, annealed thresholds with the clamped surrogate, and with one that moves; with
`--only layers` also a control, a fixed theta for each layer. Each gets the same number of short trials in the paper's
space, judged by validation samples. The learning rate's half period is the length of a trial. The best trials of each
are trained for `--long` epochs with several seeds; the learning rate's period and the rates of the thresholds are
stretched alike (`bitspike sweep best --epochs N --scale`). Validation samples choose the epoch and, among a variant's
settings, the one whose test accuracy counts. `--processes` searches, or settings trained long, run at once. `report`
writes DIR/fair-search.json, and DIR/fair-search.png where matplotlib is installed.

Every stage goes on where it was stopped, by `--minutes`, a signal or otherwise: by the same command, in the same DIR.
`--pack` writes what another machine needs to go on: the studies, and the long trainings that have ended, without
checkpoints. `--unpack` makes a new DIR of it. Trials and long trainings that were under way begin again there.

The status is 0 if the stages asked for are done, 75 if they are not (of `report` alone: if any is not), 130 after a
signal, 1 after an error.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bitspike.text import one_line
from fair_search_commands import CommandError, Commands, Interrupted, TimeIsUp
from fair_search_pack import ENDING, pack, unpack
from fair_search_report import report
from fair_search_settings import (
    ASKED,
    EPOCHS,
    ITERATIONS,
    VARIANTS,
    Setting,
    best_settings,
    settings_of,
    studies,
    unsearched,
)

DONE, FAILED, UNFINISHED, INTERRUPTED = 0, 1, 75, 130  # 75 is "try again" of sysexits.h
DIVERGED = 3  # the status of a training that ended with numbers that are not finite


def search(given: argparse.Namespace) -> None:
    """Run the search of every variant, or go on with it."""
    given.commands.all([partial(search_variant, given, variant) for variant in given.only])


def search_variant(given: argparse.Namespace, variant: str) -> None:
    """Run the search of a variant, or go on with it."""
    epochs = given.epochs or EPOCHS[given.task]
    common = [f"train.half_period={epochs * ITERATIONS[given.task]}", *given.settings]
    sets = [word for setting in (*common, *settings_of(given.task, variant)) for word in ("--set", setting)]
    given.commands.run(
        "sweep", "run", f"{given.task}/{VARIANTS[variant][1]}", "--trials", str(given.trials), "--epochs", str(epochs),
        "--workers", str(given.workers), "--together", str(given.together), "--device", given.device,
        "--out", str(given.out / variant), "--study", f"{given.task}-{variant}", *sets,
    )  # fmt: skip


def train_long(given: argparse.Namespace) -> None:
    """Train the best settings of every variant with several seeds, or go on with them; the best of all come first.

    A setting begins when one before it has ended, so that no more than `--processes` are under way.
    """
    found = studies(given, given.only)
    if missing := unsearched(given, found):
        raise ValueError(
            f"--stage long: the search is not finished: {', '.join(missing)}; run --stage search first, or give the "
            "--trials that it has"
        )
    settings = [setting for variant, seen in found.items() for setting in best_settings(given, variant, seen)]
    settings.sort(key=lambda setting: setting.rank)
    given.commands.all([partial(train_setting, given, setting) for setting in settings])


def train_setting(given: argparse.Namespace, setting: Setting) -> None:
    """Train a setting with several seeds, or go on with it."""
    if len(setting.ended(given.seeds)) == given.seeds:
        return
    if not setting.file.is_file():
        given.commands.run(
            "sweep", "best", str(given.out / setting.variant), "--trial", str(setting.trial),
            "--epochs", str(given.long), "--scale", out=setting.file,
        )  # fmt: skip
    together = ["--together"] if given.together > 1 else []
    given.commands.run(
        "train", str(setting.file), "--trials", str(given.seeds), *together, "--seed", "0", "--resume",
        "--device", given.device, "--out", str(setting.folder), "--set", "train.tensorboard=false",
        good=(0, DIVERGED),
    )  # fmt: skip


STAGES: dict[str, Callable[[argparse.Namespace], bool | None]] = {
    "search": search,
    "long": train_long,
    "report": report,
}


def run_stages(given: argparse.Namespace) -> int:
    """Run the stages that were asked for, in their order, and return the status."""
    status = DONE
    for stage in [stage for stage in STAGES if stage in (given.stage or STAGES)]:
        if stage == "long" and status == UNFINISHED:
            continue  # which trials are the best is not known
        try:
            finished = STAGES[stage](given)
            if stage == "report":  # it has looked: all may be there though the time was over
                status = DONE if finished else UNFINISHED
        except TimeIsUp:
            print(f"the {given.minutes:g} minutes are over; {how_to_go_on(given)}", file=sys.stderr)
            status = UNFINISHED
        except Interrupted:
            print(f"interrupted; {how_to_go_on(given)}", file=sys.stderr)
            return INTERRUPTED
    return INTERRUPTED if given.commands.interrupted else status


def how_to_go_on(given: argparse.Namespace) -> str:
    """Return words on the command that goes on."""
    here = "the same command goes on" + (", without --unpack" if given.unpack else "")
    return f"{here}; elsewhere it has --unpack {given.pack}" if given.pack else here


def in_one_line(call: Callable[[], int | None]) -> int:
    """Return the status that the call returns, 0 for None; print an error that is expected, and return 1."""
    try:
        return call() or DONE
    except (CommandError, ValueError, OSError) as error:
        if os.environ.get("BITSPIKE_DEBUG"):
            raise
        lines = str(error).splitlines() if isinstance(error, CommandError) else [one_line(error)]
        print("\n".join(f"fair_search: {line}" for line in lines), file=sys.stderr)
        return FAILED


def main(arguments: Sequence[str] | None = None) -> int:
    """Unpack, run the stages and pack, as asked for; return the status."""
    given = parsed(arguments)
    with given.commands.catching_signals():
        if given.unpack is not None and in_one_line(partial(unpack, given.unpack, given.out)):
            return FAILED
        packed = DONE
        try:
            status = in_one_line(partial(run_stages, given))
        finally:
            if given.pack is not None:
                packed = in_one_line(partial(pack, given.out, given.pack))
        return packed or status


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments, and `commands`, which runs those of bitspike."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(EPOCHS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stage", choices=list(STAGES), action="append", help="default: all of them, in turn")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--epochs", type=int, help=f"of a trial (default: {EPOCHS})")
    parser.add_argument("--best", type=int, default=3, help="settings of a variant that are trained long")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--long", type=int, default=110, help="epochs of a long training")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--together", type=int, default=10, help="trials of a worker at once; 1: also one seed at a time"
    )
    parser.add_argument("--processes", type=int, default=1, help="searches, or settings trained long, at once")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop, which takes up to 75 s more")
    parser.add_argument("--pack", type=Path, metavar=f"FILE{ENDING}", help="write what is needed to go on elsewhere")
    parser.add_argument("--unpack", type=Path, metavar=f"FILE{ENDING}", help="go on with it, in a new DIR")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(ASKED))
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    for option in ("pack", "unpack"):
        file = getattr(given, option)
        if file is not None and not file.name.endswith(ENDING):
            parser.error(f"--{option} {file}: the name must end with {ENDING}")
    given.commands = Commands(time.monotonic() + 60 * given.minutes, given.processes)
    return given


if __name__ == "__main__":
    sys.exit(main())
