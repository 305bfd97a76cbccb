"""Small studies in the shape of `bitspike sweep run`, with values that a formula gives instead of training."""

import json
import math

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from bitspike.experiments.presets import preset_or_file
from bitspike.experiments.sweep.facts import ATTRIBUTE, Objective, facts_of
from bitspike.experiments.sweep.space import space_of
from bitspike.experiments.sweep.studies import OpenStudy

ACCURACY = Objective("accuracy", "maximize")
SPIKES = Objective("spikes", "minimize")


def made_up(drawn):
    """An accuracy and a number of spikes that depend on the learning rate, on beta and on batch norm."""
    worse = abs(math.log10(drawn["train.lr"]) + 2.5) + 2 * abs(drawn["net.beta"] - 0.8)
    worse += drawn.get("net.norm") == "none"
    return [0.9 - 0.1 * worse, 1000 * (1.1 - drawn["net.beta"])]


def study_folder(folder, **options):
    """The folder of such a study, with its journal."""
    folder.mkdir(parents=True)
    journal = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    made = small_study(folder, storage=journal, **options)
    held = {"format": 1, "name": made.study.study_name, "storage": None, "place": "here", "facts": made.facts.as_json()}
    (folder / "study.json").write_text(json.dumps(held))
    return folder


def small_study(folder, source="fashion/fixed", *, trials=30, objectives=(ACCURACY,), storage=None, seed=0):
    """A study with some complete trials, of which every tenth was pruned, one that failed and one that runs."""
    space, spec = space_of(source), preset_or_file(source, ["train.epochs=3"])
    study = optuna.create_study(
        study_name=spec.name,
        storage=storage,
        sampler=optuna.samplers.RandomSampler(seed=seed),
        directions=[each.direction for each in objectives],
    )
    facts = facts_of(source, spec, [], space.canonical(), objectives, sampler="random", pruner="none")
    study.set_user_attr(ATTRIBUTE, facts.as_json())
    for number in range(trials + 2):
        trial = study.ask()
        drawn = space.suggest(trial)
        trial.set_user_attr("settings", {**space.settings(drawn), "seed": number})
        trial.set_user_attr("folder", f"trials/{number:05d}")
        if number == trials + 1:
            break
        if number == trials:
            trial.set_user_attr("error", "out of memory")
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        values = made_up(drawn)[: len(objectives)]
        pruned = number % 10 == 9 and len(objectives) == 1
        trial.set_user_attr("result", {"ended": "pruned" if pruned else "epochs", "diverged": False, "epochs": 3})
        if pruned:
            trial.report(values[0], 1)
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, values)
    return OpenStudy(study, facts, folder)
