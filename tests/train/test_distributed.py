"""Several processes with one global batch come to the weights of one process, and stay equal among themselves."""

import json
import signal
import time
from functools import partial

import pytest
import torch

from helpers import runs
from helpers.runs import EVERY_ITERATION, arguments, start, start_cold, start_ranks, wait_all

# float64: sums over processes are in another order, and a rounding error must not flip a spike
EXACT = ("--set", "train.precision=float64")
CLOSE = 1e-9


def sets(*settings):
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an experiment: 42 samples to train on, so batches of 8 leave a last one of 2."""
    folder = tmp_path_factory.mktemp("ranks")
    runs.write_experiment(folder)
    alone(folder, "whole")
    return folder


def command(home, name, *more):
    return arguments(home / "tiny.toml", home / name, *EXACT, *more)


def alone(home, name, *more):
    ended = start(command(home, name, *more), home).wait()
    assert ended.code == 0, ended.err


def together(home, size, name, *more, prepare=None):
    ended = wait_all(start_ranks(size, command(home, name, *more), home, prepare))
    assert [each.code for each in ended] == [0] * size, [each.err for each in ended]
    return ended


def require_close(found, wanted, *but, close=CLOSE):
    """Tables, lists, numbers and tensors alike within `close`; whole numbers, words, shares of dead neurons equal."""
    found, wanted = runs.flat(found), runs.flat(wanted)
    assert found.keys() == wanted.keys()
    for path, value in wanted.items():
        if any(part in path for part in but):
            continue
        if isinstance(value, torch.Tensor):
            scale = value.abs().max().item() if value.numel() else 0.0
            assert torch.allclose(found[path].double(), value.double(), rtol=close, atol=close * scale), path
        elif isinstance(value, float) and "/dead/" not in path and "/spikes/" not in path:
            assert found[path] == pytest.approx(value, rel=close), path
        else:
            assert found[path] == value, path


def require_same_run(out, other, *but, close=CLOSE):
    """Metrics, weights, moments and thresholds of both."""
    require_close(runs.rows(out), runs.rows(other), *but, close=close)
    kept = ("net", "optimizer", "annealing", "first_bad")
    one, two = ({key: runs.checkpoint(folder)[key] for key in kept} for folder in (out, other))
    require_close(one, two, close=close)
    best, wanted = (json.loads((folder / "summary.json").read_text()) for folder in (out, other))
    for key in ("accuracy", "best_epoch", "epochs", "steps", "ended", "dead", "spikes", "theta", "samples"):
        require_close({key: best[key]}, {key: wanted[key]}, close=close)


# ---- As one process

SETTINGS = {
    "norm per step": [],
    "norm over time": sets("net.norm=shared"),
    "dense norm": sets(
        "net.dense_norm=true", "net.spike_dropout=0.2", "net.readout=membrane", "train.loss=cross_entropy"
    ),
    "glances": sets("net.glances=5", "net.steps=10", "net.norm=shared"),
    "sgd": sets("train.optimizer=sgd", "train.momentum=0.9", "train.weight_clip=0.5", "train.evaluate_theta=final"),
    "learnt": sets("net.learn_beta=true", "net.recurrent=true", "net.clip=1.0", "train.protocol=paper"),
    "odd batches": sets("train.batch=9", "train.evaluate_batch=3", "data.repeat=2", "net.dropout=[0.5, 0.1]"),
}


@pytest.mark.parametrize(
    "which",
    [
        pytest.param(which, marks=pytest.mark.slow) if which in ("norm per step", "norm over time", "sgd") else which
        for which in SETTINGS
    ],
)
def test_two_processes_give_the_weights_of_one(home, which):
    name = which.replace(" ", "-")
    more = [*SETTINGS[which], "--epochs", "3"]
    alone(home, f"one-{name}", *more)
    together(home, 2, f"two-{name}", *more)
    require_same_run(home / f"two-{name}", home / f"one-{name}")


def test_three_processes_with_batches_of_8_and_a_last_one_of_2(home):
    together(home, 3, "three")
    require_same_run(home / "three", home / "whole", "train_loss")


@pytest.mark.slow
def test_a_process_without_a_sample_does_not_spoil_the_loss(home):
    together(home, 3, "loss", "--epochs", "1")
    assert runs.rows(home / "loss")[0]["train_loss"] == pytest.approx(runs.rows(home / "whole")[0]["train_loss"])


def test_fewer_test_samples_than_processes(home):
    more = [*sets("data.test_limit=2", "train.batch=9"), "--epochs", "1"]
    alone(home, "one-few", *more)
    together(home, 3, "three-few", *more)
    require_same_run(home / "three-few", home / "one-few")


@pytest.mark.parametrize("setting", ["train.batch=2", "data.train_limit=2"])
def test_fewer_samples_than_processes_are_refused(home, setting):
    argv = command(home, f"few-{setting}", "--set", setting, "--set", "train.protocol=paper")
    for ended in wait_all(start_ranks(3, argv, home)):
        assert ended.code == 1
        assert "bitspike: train: 3 processes need at least as many samples" in ended.err
        assert "Traceback" not in ended.err


# ---- In float32: kernels in C, whose batch norms exchange their sums

ROUNDED = 1e-4  # of the largest, after 12 iterations: gradients are sums in another order, equal to 1e-6 in the first
IN_FLOAT32 = {
    "norm per step, dropout": [],
    "norm over time, recurrence, spike cost": sets("net.norm=shared", "net.recurrent=true", "train.spike_cost=0.01"),
}


def same_in_float32(folder, experiment, *settings):
    """One process and two, both in float32; every spike that they report is the same."""
    more = [*settings, *sets("train.epochs=2", "train.tensorboard=false")]
    one, two = (arguments(experiment, folder / name, *more) for name in ("one", "two"))
    ended = [start(one, folder).wait(), *wait_all(start_ranks(2, two, folder))]
    assert [each.code for each in ended] == [0, 0, 0], [each.err for each in ended]
    require_same_run(folder / "two", folder / "one", close=ROUNDED)


@pytest.mark.parametrize("which", IN_FLOAT32)
def test_kernels_of_two_processes_give_the_weights_of_one(tmp_path, which):
    same_in_float32(tmp_path, runs.write_experiment(tmp_path), *IN_FLOAT32[which])


def test_kernels_on_events_give_the_weights_of_one(tmp_path):
    """Delays, dense norms and dropout on spikes."""
    same_in_float32(tmp_path, runs.write_event_experiment(tmp_path), *sets("train.mix=0", "train.spike_cost=0.01"))


# ---- Among themselves


def test_all_processes_hold_the_same_thresholds_and_weights(home):
    together(home, 3, "dumped", prepare=partial(runs.dump_ranks, home))
    first, *others = (torch.load(home / f"rank-{rank}.pt") for rank in range(3))
    assert first["theta"] == [row["theta"] for row in runs.rows(home / "dumped")][-1]
    assert len(set(first["theta"])) == 4
    for other in others:
        assert other["theta"] == first["theta"]
        found, wanted = (runs.flat({k: v for k, v in held.items() if k != "rows"}) for held in (other, first))
        assert found.keys() == wanted.keys()
        for path, value in wanted.items():
            same = torch.equal(found[path], value) if isinstance(value, torch.Tensor) else found[path] == value
            assert same, path
        for row, own in zip(first["rows"], other["rows"], strict=True):
            assert {k: v for k, v in own.items() if k != "train_loss"} == {
                k: v for k, v in row.items() if k != "train_loss"
            }


def test_only_the_first_writes_and_talks(home):
    ended = together(home, 2, "quiet", "--epochs", "2", prepare=runs.write_nothing_unless_first)
    assert (ended[1].out, ended[1].err) == ("", "")
    assert "epoch   2" in ended[0].err

    def names(out):
        return sorted(path.name.partition(".tfevents.")[0] for path in out.iterdir())

    assert names(home / "quiet") == names(home / "whole")


# ---- Stopped and resumed


def slow(home, size, name):
    """So many processes in the second epoch."""
    children = start_ranks(size, command(home, name), home, partial(runs.slow_steps, 0.05))
    children[0].wait_for((home / name / "last.ckpt").is_file)
    time.sleep(0.12)
    return children


def test_an_interrupt_of_one_process_stops_all_and_any_number_goes_on(home):
    children = slow(home, 2, "interrupted")
    children[1].kill(signal.SIGINT)
    ended = wait_all(children)
    assert [each.code for each in ended] == [130, 130]
    assert "interrupted; saved in" in ended[0].err
    progress = runs.checkpoint(home / "interrupted")["progress"]
    assert (progress["epoch"], progress["iteration"] > 0) == (1, True)
    together(home, 2, "interrupted", "--resume", "--epochs", "3")
    alone(home, "interrupted", "--resume", "--epochs", "5")
    require_same_run(home / "interrupted", home / "whole")


def test_killed_processes_go_on_from_the_middle_of_an_epoch(home):
    children = start_ranks(2, command(home, "killed", *EVERY_ITERATION), home, partial(runs.slow_steps, 0.05))
    children[0].wait_for((home / "killed" / "best.safetensors").is_file)
    children[0].wait_for(lambda: runs.checkpoint(home / "killed")["progress"]["iteration"] >= 2)
    for child in children:
        child.kill()
    assert [each.code for each in wait_all(children)] == [-signal.SIGKILL] * 2
    together(home, 2, "killed", "--resume")
    require_same_run(home / "killed", home / "whole")


@pytest.mark.slow
def test_killed_processes_in_float32_come_to_the_same_bit_for_bit(tmp_path):
    experiment = runs.write_experiment(tmp_path)
    whole, killed = (arguments(experiment, tmp_path / name, *EVERY_ITERATION) for name in ("whole", "killed"))
    assert [each.code for each in wait_all(start_ranks(2, whole, tmp_path))] == [0, 0]
    children = start_ranks(2, killed, tmp_path, partial(runs.slow_steps, 0.05))
    children[0].wait_for((tmp_path / "killed" / "best.safetensors").is_file)
    children[0].wait_for(lambda: runs.checkpoint(tmp_path / "killed")["progress"]["iteration"] >= 2)
    for child in children:
        child.kill()
    wait_all(children)
    assert [each.code for each in wait_all(start_ranks(2, [*killed, "--resume"], tmp_path))] == [0, 0]
    runs.require_equal(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
def test_when_one_process_dies_the_other_does_not_wait_for_ever(home):
    children = slow(home, 2, "widowed")
    children[1].kill()
    assert [each.code != 0 for each in wait_all(children, 30)] == [True, True]
    together(home, 2, "widowed", "--resume")
    require_same_run(home / "widowed", home / "whole")


def test_processes_agree_when_a_checkpoint_is_due(home):
    """Clocks never agree to the last digit; here one is due at once and the other in an hour."""
    due, later = (command(home, "clocks", "--set", f"train.checkpoint_minutes={m}") for m in (0.0001, 60))
    ended = wait_all(start_ranks(2, [due, later], home), 20)
    assert [each.code for each in ended] == [0, 0]
    require_same_run(home / "clocks", home / "whole")


# ---- Under torchrun


def torchrun(home, name, *more):
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(runs.free_port()))
    ended = start_cold(command(home, name, *more), home, *launcher).wait()
    assert ended.code == 0, ended.err


@pytest.mark.slow
def test_a_run_under_torchrun(home):
    torchrun(home, "torchrun")
    require_same_run(home / "torchrun", home / "whole")
    assert json.loads((home / "torchrun" / "summary.json").read_text())["processes"] == 2


REJOIN = "processes that leave torchrun's group and join it again may wait for each other for ever"


@pytest.mark.slow
def test_trials_under_torchrun(home):
    more = ("--trials", "2", "--epochs", "2")
    alone(home, "trials", *more)
    torchrun(home, "torchrun-trials", *more)
    for trial in ("trial-0", "trial-1"):
        require_same_run(home / "torchrun-trials" / trial, home / "trials" / trial)
    one, two = (json.loads((home / name / "summary.json").read_text()) for name in ("trials", "torchrun-trials"))
    assert one["accuracies"] == two["accuracies"]


def test_trials_join_the_other_processes_once(tmp_path, monkeypatch):
    from bitspike.experiments import runs as made
    from bitspike.experiments.schema import read_experiment, with_values

    spec = with_values(read_experiment(runs.write_experiment(tmp_path)), ["train.epochs=1", "train.tensorboard=false"])
    joins = []
    joined = made.joined
    monkeypatch.setattr(made, "joined", lambda device: (joins.append(device), joined(device))[1])
    made.train_trials(spec, tmp_path / "trials", 2, made.RunOptions())
    assert len(joins) == 1


# ---- A recipe on events


def test_a_recipe_on_events_is_that_of_one_process(tmp_path):
    """Every process draws a sample's changes from its place in the whole batch."""
    experiment = runs.write_event_experiment(tmp_path)
    settings = sets("train.mix=0", "train.epochs=2", "train.tensorboard=false")
    one = arguments(experiment, tmp_path / "one", *EXACT, *settings)
    two = arguments(experiment, tmp_path / "two", *EXACT, *settings)
    ended = [start(one, tmp_path).wait(), *wait_all(start_ranks(2, two, tmp_path))]
    assert [each.code for each in ended] == [0, 0, 0], [each.err for each in ended]
    require_same_run(tmp_path / "two", tmp_path / "one")


def test_several_processes_do_not_mix_samples(tmp_path):
    experiment = runs.write_event_experiment(tmp_path)
    ended = wait_all(start_ranks(2, arguments(experiment, tmp_path / "run"), tmp_path))
    assert all(each.code for each in ended)
    assert "train.mix takes parts of any sample of the batch, but 2 processes share the batch" in ended[0].err
