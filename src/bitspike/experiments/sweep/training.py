"""The training of claimed trials, one by one or several at once, and what is told of them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bitspike.data.catalog import drawn_from_seed
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.kept_data import KeptData
from bitspike.experiments.runs import RequestedRun, Summary, train_group
from bitspike.experiments.schema import Experiment, as_values, with_values
from bitspike.experiments.sweep.facts import StudyFacts
from bitspike.experiments.sweep.objectives import figures, values_of
from bitspike.experiments.sweep.own_trials import Claim, OwnTrials
from bitspike.experiments.sweep.space import setting_lines
from bitspike.experiments.sweep.studies import JoinedStudy
from bitspike.train.progress import Listener
from bitspike.train.run_folder import Row, RunFolder
from bitspike.train.world import World

Tell = Callable[[str, Mapping[str, Any]], object]
SAMPLES = "samples"  # the study's user attribute with the digests of its data


class OtherSamplesError(RuntimeError):
    """The data of a worker is not the data of the study."""


@dataclass(slots=True, eq=False)
class TrialTrainer:
    """Trains claimed trials with data that is opened once; tells what happens to `tell`."""

    joined: JoinedStudy
    own: OwnTrials
    options: RunOptions
    tell: Tell
    stopped: Callable[[], bool]
    kept: KeptData = field(default_factory=KeptData)
    known_samples: bool = False

    @property
    def facts(self) -> StudyFacts:
        """The facts of the study."""
        return self.joined.facts

    def train(self, claimed: Sequence[Claim]) -> None:
        """Train the trials; those of equal shapes at once. Each of them ends, or is let go when the worker stops."""
        groups: dict[str, list[Claim]] = {}
        for claim in claimed:
            if claim.pruned is not None:
                self._finish(claim, claim.pruned, None)
                continue
            try:
                groups.setdefault(_shapes(self._spec(claim)), []).append(claim)
            except ValueError as error:
                self._fail(claim, error)
        for group in groups.values():
            if self.stopped():
                for claim in group:
                    self.own.release(claim)
            else:
                self._train_group(group)

    def _spec(self, claim: Claim) -> Experiment:
        return with_values(self.facts.spec(), setting_lines(claim.settings))

    def _train_group(self, group: Sequence[Claim]) -> None:
        for claim in group:
            folder = RunFolder(claim.folder)
            held = "result" if folder.summary.is_file() else "checkpoint" if folder.last.is_file() else "nothing"
            self.tell("begins", {"trial": claim.number, "attempt": claim.attempts, "folder_holds": held})
        runs = [_Run(self, claim, self._spec(claim)) for claim in group]
        requested = [RequestedRun(run.spec, RunFolder(run.claim.folder), run.listener()) for run in runs]
        options = replace(self.options, resume=True, test=False)
        try:
            self._require_same_samples(runs[0].spec)
            done = train_group(requested, options, World(), together=len(group) > 1, kept=self.kept)
        except ValueError as error:
            if len(group) == 1:
                self._fail(group[0], error)
                return
            for claim in group:  # one of them cannot be trained: which of them shows when each is alone
                self._train_group([claim])
            return
        for run, summary in zip(runs, done, strict=True):
            self._end(run, summary)

    def _require_same_samples(self, spec: Experiment) -> None:
        """Raise if the data here is not that of the study's first trial: results of two data sets mean nothing."""
        if (
            self.known_samples
            or drawn_from_seed(spec.data.name)
            or any(key.startswith("data.") for key in self.facts.space)
        ):
            return
        study, found = self.joined.study, dict(self.kept.digests(spec, self.options))

        def first() -> dict[str, str]:
            with self.joined.storage.exclusive(study.study_name):
                if SAMPLES not in study.user_attrs:
                    study.set_user_attr(SAMPLES, found)
                held: dict[str, str] = study.user_attrs[SAMPLES]
                return held

        if self.own.patiently(first) != found:
            raise OtherSamplesError(
                f"{spec.name}: the samples here are not those of the study's first trial (values, labels or order); "
                "put the same data here, or choose another --out (and --study, on a server)"
            )
        self.known_samples = True

    def _end(self, run: _Run, summary: Summary | None) -> None:
        if run.pruned is not None:
            self._finish(run.claim, run.pruned, None)
        elif summary is None:
            self.own.release(run.claim)
        else:
            dataset = self.kept.dataset(run.spec, self.options)
            found = figures(run.spec, dataset, RunFolder(run.claim.folder), summary)
            result = {
                "ended": summary["ended"],
                **found,
                **{key: summary[key] for key in ("epochs", "best_epoch", "seconds", "device", "versions")},
                "host": socket.gethostname(),
            }
            self._finish(run.claim, result, values_of(found, self.facts.objectives))

    def _finish(self, claim: Claim, result: Mapping[str, Any], values: Sequence[float] | None) -> None:
        self.own.finish(claim, result, values)
        self.tell("ends", {"trial": claim.number, **result})

    def _fail(self, claim: Claim, error: ValueError) -> None:
        line = " ".join(str(error).split())
        self.own.fail(claim, line)
        self.tell("fails", {"trial": claim.number, "error": line})


@dataclass(slots=True, eq=False)
class _Run:
    """A trial in training; `pruned` is its result once it has been pruned."""

    above: TrialTrainer
    claim: Claim
    spec: Experiment
    pruned: dict[str, Any] | None = None

    def listener(self) -> Listener:
        return Listener(
            epoch_ends=self._epoch_ends, interrupted=lambda: self.pruned is not None or self.above.stopped()
        )

    def _epoch_ends(self, row: Row) -> None:
        epoch, accuracy = int(row["epoch"]), float(row["valid_accuracy"])
        told = {"trial": self.claim.number, "epoch": epoch, "epochs": self.spec.train.epochs, "accuracy": accuracy}
        self.above.tell("epoch", told)
        if self.above.facts.pruner == "none" or epoch == self.spec.train.epochs:
            return
        if self.above.own.report(self.claim, epoch, accuracy):
            self.pruned = {
                "ended": "pruned",
                "diverged": False,
                "accuracy": accuracy,
                "epochs": epoch,
                "device": str(self.above.options.device),
                "host": socket.gethostname(),
            }
            self.above.own.note_pruned(self.claim, self.pruned)


def _shapes(spec: Experiment) -> str:
    """Return what trials must have in common to be trained at once: all settings but the values of real numbers."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(held) for key, held in sorted(value.items()) if key not in ("seed", "sources")}
        if isinstance(value, list):
            return [plain(each) for each in value]
        return "number" if isinstance(value, float) else value

    return repr(plain(as_values(spec)))
