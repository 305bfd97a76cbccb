"""Two runs with one seed are equal in every number, whatever the process did before; and they leave no trace in it."""

import json
import os
import random
import shutil

import numpy as np
import pytest
import torch

from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.runs import train_run
from bitspike.experiments.saved import load_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.train import numerics
from bitspike.train.iteration import Iteration
from bitspike.train.loop import Listener
from helpers import runs
from helpers.runs import EVERY_ITERATION, require_equal

deterministic = torch.utils.deterministic


def experiment(folder, *settings):
    """The tiny one; in this process without TensorBoard, whose import warns."""
    return with_values(
        read_experiment(runs.write_experiment(folder)), ["train.epochs=3", "train.tensorboard=false", *settings]
    )


def train(folder, name, *settings, **setting):
    return train_run(experiment(folder, *settings), folder / name, RunOptions(**setting))


def test_two_runs_are_equal_to_the_last_bit(tmp_path):
    argv = [runs.arguments(runs.write_experiment(tmp_path), tmp_path / name) for name in ("a", "b")]
    assert [runs.start(each, tmp_path).wait().code for each in argv] == [0, 0]
    require_equal(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize(
    "settings",
    [
        ("net.norm=shared", "train.protocol=paper"),
        ("net.binary=false", "net.learn_beta=true", "net.recurrent=true"),
        ("train.optimizer=sgd", "train.momentum=0.9", "train.weight_clip=1", "train.evaluate_theta=final"),
        ("train.optimizer=adamw", "train.weight_decay=0.5", "net.surrogate=triangular"),
        ("train.precision=float64", "net.surrogate_center=current", "net.clip=1.0", "data.repeat=2"),
        ("net.init=torch", "net.backend=torch", "train.schedule=constant"),
    ],
)
def test_two_runs_in_one_process_are_equal(tmp_path, settings):
    train(tmp_path, "a", *settings)
    torch.manual_seed(123)
    torch.rand(7)
    random.seed(5)
    np.random.seed(6)
    train(tmp_path, "b", *settings)
    require_equal(tmp_path / "a", tmp_path / "b")


def test_an_epoch_takes_every_sample_once(tmp_path, monkeypatch):
    """42 of them in batches of 8; the last batch takes what is left."""
    taken, batch = [], Iteration._batch
    monkeypatch.setattr(
        Iteration, "_batch", lambda self, rows, *rest: taken.append(rows.tolist()) or batch(self, rows, *rest)
    )
    train(tmp_path, "a", "train.epochs=1")
    assert [len(rows) for rows in taken] == [8, 8, 8, 8, 8, 2]
    assert sorted(row for rows in taken for row in rows) == list(range(42))


def test_how_visibly_a_run_is_made_changes_no_number(tmp_path):
    train(tmp_path, "a")
    seen = []
    listener = Listener(iteration=lambda watched: (seen.append(watched), torch.rand(3)))
    train(tmp_path, "b", "train.watch_every=1", EVERY_ITERATION[1], listener=listener)
    assert None not in seen
    require_equal(tmp_path / "a", tmp_path / "b")


def test_another_seed_is_another_run(tmp_path):
    a, b = train(tmp_path, "a"), train(tmp_path, "b", "seed=1")
    assert (a["seed"], b["seed"]) == (0, 1)
    assert runs.rows(tmp_path / "a") != runs.rows(tmp_path / "b")
    first, second = (load_run(tmp_path / name).layers[0].synapse.weight for name in "ab")
    assert not torch.equal(first, second)
    assert a["samples"] == b["samples"]  # the split is the data's, not the seed's


def test_what_is_left_can_be_run_again(tmp_path):
    """experiment.toml is complete: a run of it is the run it lies in."""
    train(tmp_path, "a", "train.lr=0.02", "seed=3")
    train_run(read_experiment(tmp_path / "a" / "experiment.toml"), tmp_path / "b", RunOptions())
    require_equal(tmp_path / "a", tmp_path / "b")


def test_metrics_hold_no_time_but_in_timing(tmp_path):
    train(tmp_path, "a")
    row = json.loads((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()[0])
    assert set(row.pop("timing")) == {"train_seconds", "evaluate_seconds", "data_share"}
    assert not [key for key in row if "second" in key or "time" in key]


# ---- No trace


def settings_of_the_process():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        deterministic.fill_uninitialized_memory,
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.get_default_dtype(),
        torch.get_num_threads(),
    )


@pytest.fixture(params=["plain", "strict", "warning"])
def chosen(request):
    """Settings as someone's own program may have them; put back after the test."""
    before = settings_of_the_process()
    torch.use_deterministic_algorithms(request.param != "plain", warn_only=request.param == "warning")
    deterministic.fill_uninitialized_memory = request.param == "plain"
    torch.backends.cudnn.benchmark = request.param == "plain"
    torch.backends.cuda.matmul.allow_tf32 = request.param == "strict"
    yield settings_of_the_process()
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    deterministic.fill_uninitialized_memory = before[2]
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before[3], before[4]
    torch.backends.cudnn.benchmark = before[5]


@pytest.mark.parametrize("precision", ["float32", "tf32", "float64"])
def test_a_run_leaves_random_state_and_settings_as_they_were(tmp_path, chosen, precision):
    torch.manual_seed(123)
    states = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    train(tmp_path, "a", f"train.precision={precision}", "train.epochs=1")
    assert settings_of_the_process() == chosen
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]


def test_so_does_one_that_fails(tmp_path, chosen):
    def fail(row):
        raise OSError("no")

    torch.manual_seed(123)
    state = torch.get_rng_state()
    with pytest.raises(OSError, match="no"):
        train(tmp_path, "a", listener=Listener(epoch_ends=fail))
    assert settings_of_the_process() == chosen
    assert torch.equal(torch.get_rng_state(), state)


# ---- On a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16", "float64"])
def test_two_runs_on_the_gpu_are_equal(tmp_path, precision):
    torch.cuda.manual_seed(9)
    state = torch.cuda.get_rng_state()
    train(tmp_path, "a", f"train.precision={precision}", device=torch.device("cuda"))
    assert torch.equal(torch.cuda.get_rng_state(), state)
    torch.cuda.manual_seed(123)
    train(tmp_path, "b", f"train.precision={precision}", device=torch.device("cuda"))
    require_equal(tmp_path / "a", tmp_path / "b")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_on_the_gpu_goes_on_as_if_never_stopped(tmp_path):
    train(tmp_path, "a", device=torch.device("cuda"))
    asked = iter([False] * 8 + [True])
    stop = Listener(interrupted=lambda: next(asked))
    assert train(tmp_path, "b", device=torch.device("cuda"), listener=stop) is None
    assert train(tmp_path, "b", device=torch.device("cuda"), resume=True) is not None
    require_equal(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize(
    ("flags", "survives", "setting"),
    [
        ("avx512f amx_bf16", False, "AVX512_CORE_BF16"),
        ("avx512f amx_bf16", True, None),
        ("avx512f", False, None),
    ],
)
def test_amx_that_cannot_execute_is_avoided(tmp_path, monkeypatch, flags, survives, setting):
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(numerics, "_survives_bf16", lambda: survives)
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    numerics.avoid_broken_amx(tmp_path / "cpuinfo")
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == setting
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)


def test_a_process_that_dies_of_a_product_is_noticed(monkeypatch):
    monkeypatch.setattr(numerics.sys, "executable", shutil.which("false"))
    assert not numerics._survives_bf16()
