"""Claims of two workers that meet at the worst moments."""

import contextlib

import optuna
import pytest

from bitspike.experiments.presets import preset_or_file
from bitspike.experiments.sweep.claims import Claims
from bitspike.experiments.sweep.facts import facts_of
from bitspike.experiments.sweep.objectives import ACCURACY
from bitspike.experiments.sweep.own_trials import OwnTrials
from bitspike.experiments.sweep.space import space_of
from bitspike.experiments.sweep.studies import JoinedStudy, join_study
from helpers import sweeps


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a worker's claims, and its own trials, on one study."""
    file = str(sweeps.write_search(tmp_path))
    space = space_of(file)
    facts = facts_of(file, preset_or_file(file), [], space.canonical(), [ACCURACY], sampler="tpe", pruner="none")

    def made(target):
        joined = join_study(tmp_path / "out", "study", facts, None, 20)
        own = OwnTrials(joined)
        return Claims(joined, space, target, own=own), own

    return made


def states(claims):
    return [trial.state.name for trial in claims._study.trials]


def test_slots_are_taken_before_they_are_trained(make):
    (one, own), (two, _) = make(3), make(3)
    first = one.take(2)
    assert [claim.number for claim in first] == [0, 1]
    assert [claim.number for claim in two.take(5)] == [2]
    assert two.take(5) == []
    own.release(first[0])
    own.let_go(first[1])  # as if its process had died
    again = two.take(5)
    assert [(claim.number, claim.attempts) for claim in again] == [(0, 2), (1, 2)]
    assert [claim.settings for claim in again] == [claim.settings for claim in first]


def test_workers_share_what_is_left(make):
    (one, _), (two, _) = make(5), make(5)
    assert len(one.take(8, workers=2)) == 3
    assert len(two.take(8, workers=2)) == 1


def test_fewer_trials_than_before_are_never_exceeded(make):
    """Later trials may have ended before earlier ones, whose workers died."""
    first, own = make(6)
    taken = first.take(6)
    for claim in taken[2:]:
        own.finish(claim, {"ended": "epochs"}, [0.5])
    for claim in taken[:2]:
        own.let_go(claim)  # as if their process had died
    (one, later), (two, _) = make(5), make(5)
    (claim,) = one.take(2)
    assert claim.number == 0
    assert two.take(2) == []
    later.finish(claim, {"ended": "epochs"}, [0.5])
    assert one.take(2) is None
    assert [claim.number for claim in make(7)[0].take(2)] == [1, 6]


def test_a_trial_of_optunas_queue_is_trained(make):
    """It was a slot that nobody took, and all workers waited for it."""
    claims, _ = make(2)
    claims._study.enqueue_trial({"train.lr": 0.0123})
    taken = claims.take(5)
    assert [claim.number for claim in taken] == [0, 1]
    assert taken[0].settings["train.lr"] == 0.0123


def test_a_trial_that_ends_while_another_worker_looks_for_dead_ones(make, monkeypatch):
    (one, own), (two, _) = make(2), make(2)
    (held,) = one.take(1)
    lock = JoinedStudy.trial_lock

    def late(joined, number):
        if own.held:
            own.finish(held, {"ended": "epochs"}, [0.5])
        return lock(joined, number)

    monkeypatch.setattr(JoinedStudy, "trial_lock", late)
    assert [claim.number for claim in two.take(5)] == [1]
    assert states(two) == ["COMPLETE", "RUNNING"]


def test_without_the_lock_a_trial_too_many_is_never_trained(make, monkeypatch):
    """A server that restarts loses its lock: both workers may count before either creates its trial."""
    (one, _), (two, own) = make(1), make(1)
    monkeypatch.setattr(type(two._storage), "exclusive", lambda self, name: contextlib.nullcontext())
    ask, late = two._study.ask, []

    def after_the_other():
        late.extend(one.take(1))
        return ask()

    monkeypatch.setattr(two._study, "ask", after_the_other)
    assert two.take(1) == []
    assert [claim.number for claim in late] == [0]
    assert states(two) == ["RUNNING", "FAIL"]
    assert two._study.trials[1].user_attrs == {"surplus": True}
    orphan = ask()  # and one whose worker died before it saw that
    assert two.take(1) == []
    assert orphan.number == 2
    assert not own.held


def test_a_worker_that_was_taken_for_dead_says_nothing(make):
    (one, own), (two, other) = make(1), make(1)
    (claim,) = one.take(1)
    claim.lock.release()
    (taken,) = two.take(1)
    own.finish(claim, {"ended": "epochs"}, [0.1])
    assert states(two) == ["RUNNING"]
    other.finish(taken, {"ended": "epochs"}, [0.9])
    own.fail(claim, "late")
    own.release(claim)
    assert two._study.trials[0].values == [0.9]
    assert two._study.trials[0].state == optuna.trial.TrialState.COMPLETE
    assert two.take(1) is None


# ---- Checkpoints


def trained(claim):
    """Write the checkpoint of a trial, and half of another that a kill left behind."""
    claim.folder.mkdir(parents=True)
    (claim.folder / "last.ckpt").touch()
    (claim.folder / ".last-x1.ckpt").touch()
    (claim.folder / "best.safetensors").touch()


def left(claim):
    return sorted(path.name for path in claim.folder.iterdir())


@pytest.mark.parametrize("ending", ["complete", "pruned", "failed"])
def test_a_checkpoint_is_deleted_once_the_result_is_told(make, monkeypatch, ending):
    claims, own = make(1)
    (claim,) = claims.take(1)
    trained(claim)
    tell, seen = claims._study.tell, []

    def telling(*args, **more):
        seen.append(left(claim))
        tell(*args, **more)
        seen.append(left(claim))

    monkeypatch.setattr(claims._study, "tell", telling)
    if ending == "failed":
        own.fail(claim, "broken")
    else:
        own.finish(claim, {"ended": ending}, [0.5] if ending == "complete" else None)
    assert seen == [[".last-x1.ckpt", "best.safetensors", "last.ckpt"]] * 2
    assert left(claim) == ["best.safetensors"]


def test_a_result_that_is_not_told_keeps_the_checkpoint(make, monkeypatch):
    (one, own), (two, other) = make(1), make(1)
    (claim,) = one.take(1)
    trained(claim)

    def gone(*args, **more):
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(one._study, "tell", gone)
        with pytest.raises(OSError, match="gone"):
            own.finish(claim, {"ended": "epochs"}, [0.5])
    own.release(claim)
    assert "last.ckpt" in left(claim)
    (taken,) = two.take(1)
    own.finish(claim, {"ended": "epochs"}, [0.5])  # another one's by now
    assert "last.ckpt" in left(claim)
    other.finish(taken, {"ended": "epochs"}, [0.5])
    assert left(claim) == ["best.safetensors"]
