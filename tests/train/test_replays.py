"""Whole runs with replays are those without: the bookkeeping around a step that is recorded once and replayed.

Without a GPU a stand-in records: it lets the body's Python run once and takes back what that did to memory, as a CUDA
graph does nothing while it records; its replays insist on the memory of the recording.
"""

import json
from types import SimpleNamespace

import pytest
import torch

from bitspike import Relax, build
from bitspike.data import Images
from bitspike.data.samples import Frames, frames_from_dense
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.nn import SpikingNetwork
from bitspike.train import iteration
from bitspike.train.config import TrainConfig
from bitspike.train.learning_rates import make_rate
from bitspike.train.loop import Listener, Trainer
from bitspike.train.run_folder import RunFolder
from bitspike.train.seeds import mixed, order
from bitspike.train.tasks import CountTask
from helpers import runs
from helpers.graphs import ReplayStandIn, record_iterations, require_equal_but_for_the_graph

# ---- Whole runs, with a stand-in for the graph


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The plan holds all, and iterations are recorded."""
    record_iterations(monkeypatch)
    monkeypatch.setattr(ReplayStandIn, "replays", 0)


def experiment(folder, *settings):
    """The tiny one: 42 samples to train on, so batches of 8 leave a last one of 2."""
    return with_values(
        read_experiment(runs.write_experiment(folder)), ["train.epochs=3", "train.tensorboard=false", *settings]
    )


def train(folder, name, *settings, **setting):
    return train_run(experiment(folder, *settings), folder / name, RunOptions(**setting))


# float32 holds the rate; torch's Adam divides a rate in a tensor in float32, so that only SGD is equal to the last bit
EXACT = ("net.dropout=0", "train.optimizer=sgd", "train.lr=0.015625", "train.schedule=constant")
WAYS = {
    "adam": ("net.dropout=0",),
    "adamw": ("net.dropout=0", "train.optimizer=adamw", "train.weight_decay=0.5"),
    "sgd": ("train.optimizer=sgd", "train.momentum=0.9", "train.weight_clip=0.5"),
    "float64": ("train.precision=float64", "net.surrogate_center=current", "data.repeat=2"),
    "dropout": ("net.dropout=0.5", "train.evaluate_theta=final"),
}


@pytest.mark.parametrize("way", ["sgd", "float64"])
def test_a_run_from_the_plan_is_the_run_from_the_host(tmp_path, monkeypatch, way):
    assert train(tmp_path, "host", *WAYS[way], *EXACT)["graph"] == "CUDA graphs need a GPU"
    monkeypatch.setattr(iteration, "planned_on", lambda device: True)
    train(tmp_path, "plan", *WAYS[way], *EXACT)
    require_equal_but_for_the_graph(tmp_path / "plan", tmp_path / "host")


@pytest.mark.parametrize("way", WAYS)
def test_a_run_with_replays_is_the_run_without(tmp_path, as_on_a_gpu, way):
    settings = WAYS[way]
    assert train(tmp_path, "plain", *settings, graph="off")["graph"] == "switched off"
    assert ReplayStandIn.replays == 0
    summary = train(tmp_path, "replayed", *settings)
    assert summary["graph"] is True
    full = (84 if way == "float64" else 42) // 8  # of an epoch's iterations
    assert ReplayStandIn.replays == 3 * full - 3
    require_equal_but_for_the_graph(tmp_path / "replayed", tmp_path / "plain")
    timing = json.loads((tmp_path / "replayed" / "metrics.jsonl").read_text().splitlines()[0])["timing"]
    assert timing["data_share"] is None


def test_dropout_is_drawn_anew_in_every_replay(tmp_path, as_on_a_gpu):
    keys = []
    step = Trainer.step

    def listening(self, count):
        step(self, count)
        keys.append(self.net.layers[2].dropout.key.item())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", listening)
        train(tmp_path, "run")
    assert keys == [mixed(0, "dropout", k) for k in range(len(keys))]
    assert len(keys) == 18


@pytest.mark.parametrize("after", [2, 5, 7, 9])
def test_a_run_with_replays_goes_on_as_if_never_stopped(tmp_path, as_on_a_gpu, after):
    train(tmp_path, "whole")
    assert train(tmp_path, "parts", listener=runs.interrupting(after)) is None
    assert train(tmp_path, "parts", resume=True)["graph"] is True
    runs.require_equal(tmp_path / "parts", tmp_path / "whole")


def test_a_checkpoint_may_go_from_one_way_to_the_other(tmp_path, monkeypatch):
    train(tmp_path, "whole", *EXACT)
    assert train(tmp_path, "parts", *EXACT, listener=runs.interrupting(8)) is None
    record_iterations(monkeypatch)
    assert train(tmp_path, "parts", *EXACT, resume=True)["graph"] is True
    require_equal_but_for_the_graph(tmp_path / "parts", tmp_path / "whole")


def test_a_run_whose_recording_fails_is_the_same_run(tmp_path, as_on_a_gpu, monkeypatch):
    train(tmp_path, "whole")

    def fails(self, body):
        ReplayStandIn.record(self, body)  # the Python of the body has run
        raise RuntimeError("no")

    monkeypatch.setattr(iteration, "CudaGraph", type("Failing", (ReplayStandIn,), {"record": fails}))
    assert train(tmp_path, "failed")["graph"] == "recording failed: no"
    require_equal_but_for_the_graph(tmp_path / "failed", tmp_path / "whole")


def test_a_run_too_short_to_record(tmp_path, as_on_a_gpu):
    assert train(tmp_path, "run", "train.epochs=1", "train.batch=20")["graph"] == "too few iterations to record one"


# ---- A trainer in hand


def pictures(count=20):
    drawn = torch.Generator().manual_seed(0)
    return Images(torch.randint(0, 256, (count, 6), dtype=torch.uint8, generator=drawn), torch.arange(count) % 3)


def trainer(folder, samples=None, **config):
    samples = pictures() if samples is None else samples
    config = TrainConfig(**{"lr": 0.01, "half_period": 7, "batch": 8, **config})
    net = build("6-5-3", steps=4, generator=torch.Generator().manual_seed(0))
    return Trainer(net, [Relax(0.5, 2.0, 0.1)] * 2, CountTask(), samples, samples, config, RunFolder(folder), seed=5)


def test_steps_by_hand(tmp_path):
    one = trainer(tmp_path)
    one.begin_epoch()
    one.step()
    counts = one.observed.counts()
    assert [tuple(count.shape) for count in counts] == [(8, 5), (8, 3)]
    one.step(2)
    assert len(one.observed.counts()[0]) == 4  # 20 = 8 + 8 + 4
    assert (one.progress.step, one.progress.iteration, one.annealing.steps_taken) == (3, 3, 3)
    assert one.thetas() == pytest.approx([Relax(0.5, 2.0, 0.1)(3)] * 2)
    with pytest.raises(ValueError, match=r"0 iterations of the epoch are left, but step\(1\); call begin_epoch\(\)"):
        one.step()
    one.begin_epoch()
    assert (one.progress.epoch, one.progress.iteration, one.sums.tolist()) == (1, 0, [0.0, 0.0, 0.0])
    one.step(3)
    assert one.sums[2] == 20


def test_the_sums_weigh_every_sample_alike(tmp_path):
    one, judged = trainer(tmp_path), []
    real = one.task.judge
    one.work.task = SimpleNamespace(judge=lambda *arguments: judged.append(real(*arguments)) or judged[-1])
    one.begin_epoch()
    one.step(3)
    assert one.sums[0].item() == sum(loss.item() * size for (loss, _), size in zip(judged, (8, 8, 4), strict=True))


def test_a_network_is_left_without_a_key(tmp_path, as_on_a_gpu):
    one = trainer(tmp_path, epochs=2, tensorboard=False)
    keys = []
    one.listener = Listener(iteration=lambda watched: keys.append(one.net.layers[0].dropout.key))
    assert one.run() == "epochs"
    assert all(key is one.work.plan.key for key in keys)
    assert len(keys) == 6
    assert one.net.layers[0].dropout.key is None  # or every later mask would be the last one


def test_on_a_cpu_the_rate_comes_from_the_host(tmp_path):
    one = trainer(tmp_path)
    one.begin_epoch()
    for step in range(3):
        one.step()
        assert one.optimizer.param_groups[0]["lr"] == make_rate(one.config, 1)(step)


def test_a_trainer_that_resumes_records_anew(tmp_path, as_on_a_gpu):
    one = trainer(tmp_path, pictures(48))
    one.begin_epoch()
    one.step(4)
    assert one.graph is True
    one.save()
    one.step(1)
    one.resume()  # the optimizer's tensors are others now
    assert one.progress.step == 4
    assert one.graph == "too few iterations to record one"


def test_an_epoch_whose_iterations_are_done_is_not_begun_again(tmp_path):
    one = trainer(tmp_path)
    one.begin_epoch()
    one.step(3)
    one.save()
    again = trainer(tmp_path)
    again.resume()
    assert again.train_epoch()
    assert (again.progress.epoch, again.progress.iteration, again.progress.step) == (0, 3, 3)
    assert torch.equal(again.sums, one.sums)


def test_event_counts_stay_bytes_up_to_the_network(tmp_path, monkeypatch):
    drawn = torch.Generator().manual_seed(0)
    samples = frames_from_dense(torch.randint(0, 3, (20, 7, 6), generator=drawn), torch.arange(20) % 3)
    seen, results = [], []
    observe = SpikingNetwork.observe
    monkeypatch.setattr(SpikingNetwork, "observe", lambda net, x: seen.append(x.dtype) or observe(net, x))
    for gathers in (False, True):
        if gathers:
            monkeypatch.setattr(Frames, "_copied", Frames._gathered)  # the GPU's way
        one = trainer(tmp_path / str(gathers), samples, epochs=2, tensorboard=False)
        one.run()
        results.append((one.net.state_dict(), [row["valid_loss"] for row in one.progress.rows]))
    assert set(seen[: len(seen) // 2]) == {torch.float32}
    assert set(seen[len(seen) // 2 :]) == {torch.uint8}
    assert results[0][1] == results[1][1]
    for a, b in zip(results[0][0].values(), results[1][0].values(), strict=True):
        assert torch.equal(a, b)


def test_the_plan_holds_the_closed_forms(tmp_path, as_on_a_gpu):
    one = trainer(tmp_path)
    one.begin_epoch()
    one.step(3)
    one.begin_epoch()
    plan, rows = one.work.plan, order(20, 1, 5, 1)
    for k in range(3):
        plan.seek(k)
        plan.next()
        step = 3 + k
        assert torch.equal(plan.rows[: one.work.size(k)], rows[8 * k : 8 * k + 8])
        assert (plan.step.item(), plan.key.item()) == (step, mixed(5, "dropout", step))
        assert plan.lr.item() == pytest.approx(make_rate(one.config, 1)(step), rel=1e-6)
        assert [value.item() for value in plan.values] == pytest.approx([Relax(0.5, 2.0, 0.1)(step + 1)] * 2)
    assert one.optimizer.param_groups[0]["lr"].data_ptr() == plan.lr.data_ptr()


def test_a_bad_gradient_is_dated_by_the_run_not_the_epoch(tmp_path, as_on_a_gpu):
    one = trainer(tmp_path)
    one.begin_epoch()
    one.step(3)
    one.begin_epoch()
    one.step(1)
    assert one.bad.found() is None
    one.net.layers[1].synapse.bias.register_hook(lambda grad: grad * torch.inf)
    one.step(1)
    assert one.bad.found() == ("layers.1.synapse.bias", 4)


def test_why_there_is_no_graph_is_told_once_and_only_where_one_could_be(tmp_path, as_on_a_gpu):
    told = []
    fails = type("Failing", (ReplayStandIn,), {"record": lambda self, body: 1 / 0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iteration, "CudaGraph", fails)
        one = trainer(tmp_path)
    one.listener = Listener(note=told.append)
    for _ in range(2):
        one.train_epoch()
        one.progress.iteration = 0
    assert told == []  # a CPU
    one._expects_graph = True
    for _ in range(2):
        one.train_epoch()
        one.progress.iteration = 0
    assert told == ["iterations are launched one by one, not as a CUDA graph: recording failed: division by zero"]


# ---- On a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("more", ["net.backend=auto", "net.backend=torch", "net.norm=shared"])
def test_a_run_with_replays_on_the_gpu_is_the_run_without(tmp_path, way, more):
    device = torch.device("cuda")
    assert train(tmp_path, "replayed", *WAYS[way], more, device=device)["graph"] is True
    assert train(tmp_path, "plain", *WAYS[way], more, device=device, graph="off")["graph"] == "switched off"
    require_equal_but_for_the_graph(tmp_path / "replayed", tmp_path / "plain")
