"""Trials trained side by side are the trials trained alone, bit for bit, however they end, stop and go on."""

import gc
import json
import weakref
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from bitspike import Relax, build
from bitspike.bench import cases as cases_module
from bitspike.bench.seeds import JointSteps, select_step_cases
from bitspike.data import Images
from bitspike.experiments import kept_data
from bitspike.experiments import runs as experiment_runs
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_trials
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.ops.chain import side_stream
from bitspike.train import iteration, together
from bitspike.train.config import TrainConfig
from bitspike.train.loop import Listener, Trainer
from bitspike.train.run_folder import RunFolder
from bitspike.train.tasks import CountTask
from bitspike.train.together import Joint, Lane, run_together
from bitspike.train.trial_listeners import TrialListeners
from helpers import runs
from helpers.bench import tiny
from helpers.graphs import JointStandIn, require_equal_trials, trial_summary


@pytest.fixture(params=["turns", "joint"])
def way(request, monkeypatch):
    """On a CPU as it is; and as on a GPU, with iterations in one recording. Trials alone never record here."""
    monkeypatch.setattr(JointStandIn, "recordings", [])
    monkeypatch.setattr(JointStandIn, "replays", 0)
    if request.param == "joint":
        monkeypatch.setattr(iteration, "planned_on", lambda device: True)
        monkeypatch.setattr(together, "CudaGraph", JointStandIn)
    return request.param


@pytest.fixture
def recording(monkeypatch):
    """Trainers made from now on may be recorded."""

    def allow():
        monkeypatch.setattr(iteration, "no_graph", lambda *_: None)

    return allow


def experiment(folder, *settings):
    spec = read_experiment(runs.write_experiment(folder))
    return with_values(spec, ["train.epochs=3", "train.tensorboard=false", *settings])


def train(folder, name, *settings, trials=3, together=False, **setting):
    return train_trials(experiment(folder, *settings), folder / name, trials, RunOptions(**setting), together=together)


# ---- Whole runs


@pytest.mark.parametrize(
    ("settings", "full"),  # iterations of whole batches in two epochs
    [
        (("net.dropout=0.4", "train.watch_every=1"), 2 * 5),
        pytest.param(
            ("train.optimizer=sgd", "train.momentum=0.9", "net.norm=shared", "train.evaluate_theta=final"),
            2 * 5,
            marks=pytest.mark.slow,
        ),
        (("train.precision=float64", "net.recurrent=true", "net.norm=none", "train.protocol=paper"), 2 * 6),
    ],
)
def test_trials_together_are_trials_alone(tmp_path, way, recording, settings, full):
    settings = ("train.epochs=2", *settings)
    train(tmp_path, "alone", *settings, trials=2)
    recording()
    result = train(tmp_path, "together", *settings, trials=2, together=True)
    summaries = [trial_summary(tmp_path / "together", trial) for trial in range(2)]
    assert [each["together"] for each in summaries] == [2, 2]
    assert "together" not in trial_summary(tmp_path / "alone", 0)
    assert result["seconds"] == max(each["seconds"] for each in summaries)
    if way == "joint":
        assert JointStandIn.recordings == [2]
        assert JointStandIn.replays == full - 3
        assert [each["graph"] for each in summaries] == [True, True]
    require_equal_trials(tmp_path / "together", tmp_path / "alone", trials=2)


def test_patience_is_each_ones_own(tmp_path, way, recording):
    settings = ("train.epochs=5", "train.patience=1", "net.dropout=0", "train.lr=0.03")
    endings = train(tmp_path, "alone", *settings)["endings"]
    assert "patience" in endings
    recording()
    train(tmp_path, "together", *settings, together=True)
    require_equal_trials(tmp_path / "together", tmp_path / "alone")


@pytest.mark.parametrize("after", [pytest.param(3, marks=pytest.mark.slow), 20])
def test_an_interrupted_run_goes_on_as_if_never_stopped(tmp_path, way, recording, after):
    """6 iterations an epoch of 3 trials: the first is asked once in between, so that places differ."""
    train(tmp_path, "alone")
    recording()
    assert train(tmp_path, "together", together=True, listener=runs.interrupting(after)) is None
    steps = [runs.checkpoint(tmp_path / "together" / f"trial-{trial}")["progress"]["step"] for trial in range(3)]
    assert (len(set(steps)) > 1) == (after % 3 > 0)
    train(tmp_path, "together", together=True, resume=True)
    require_equal_trials(tmp_path / "together", tmp_path / "alone")


def test_trials_begun_alone_are_ended_together_and_the_other_way_round(tmp_path):
    train(tmp_path, "alone")
    assert train(tmp_path, "mixed", listener=runs.interrupting(26)) is None  # the first is complete, the second begun
    train(tmp_path, "mixed", together=True, resume=True)
    require_equal_trials(tmp_path / "mixed", tmp_path / "alone")
    assert train(tmp_path, "other", together=True, listener=runs.interrupting(10)) is None
    train(tmp_path, "other", resume=True)
    require_equal_trials(tmp_path / "other", tmp_path / "alone")


def test_complete_trials_are_not_trained_again(tmp_path, monkeypatch):
    first = train(tmp_path, "out", together=True)
    monkeypatch.setattr(kept_data, "dataset_of", None)
    again = train(tmp_path, "out", together=True, resume=True)
    assert again["accuracies"] == first["accuracies"]


def test_the_data_is_there_once(tmp_path, monkeypatch):
    seen = []
    real = experiment_runs.run_together
    monkeypatch.setattr(experiment_runs, "run_together", lambda trainers: seen.extend(trainers) or real(trainers))
    train(tmp_path, "out", "train.epochs=1", together=True)
    assert len(seen) == 3
    assert len({id(trainer.samples) for trainer in seen}) == 1
    assert len({id(trainer.selection_samples) for trainer in seen}) == 1
    assert not torch.equal(seen[0].net.layers[0].synapse.weight, seen[1].net.layers[0].synapse.weight)


def test_each_seed_of_the_coding_task_has_its_own_data(tmp_path):
    spec = with_values(preset("coding/annealed"), ["train.epochs=2", "train.tensorboard=false"])
    for name, side_by_side in (("alone", False), ("together", True)):
        train_trials(spec, tmp_path / name, 2, RunOptions(), together=side_by_side)
    require_equal_trials(tmp_path / "together", tmp_path / "alone", trials=2)


def test_one_process_only(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"--together trains all trials in one process, but torchrun started several"):
        train(tmp_path, "out", together=True)
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_stops_all_before_anything_is_written(tmp_path):
    from bitspike.files import locked

    with locked(tmp_path / "out" / "trial-2" / ".lock"), pytest.raises(ValueError, match="is in use by another"):
        train(tmp_path, "out", together=True)
    assert not list((tmp_path / "out").rglob("experiment.toml"))
    train(tmp_path, "out", together=True)  # and the others were let go


# ---- Trainers in hand


def trainer(folder, seed, samples=20, **config):
    drawn = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (samples, 6), dtype=torch.uint8, generator=drawn)
    data = Images(images, torch.arange(samples) % 3)
    config = TrainConfig(**{"lr": 0.01, "half_period": 7, "batch": 8, "epochs": 2, "tensorboard": False, **config})
    net = build("6-5-3", steps=4, generator=torch.Generator().manual_seed(seed))
    return Trainer(net, [Relax(0.5, 2.0, 0.1)] * 2, CountTask(), data, data, config, RunFolder(folder), seed=seed)


def weights(one):
    return [parameter.detach().clone() for parameter in one.net.parameters()]


def test_trainers_need_not_have_the_same_epochs(tmp_path, way, recording):
    sizes = {"a": 20, "b": 32, "c": 9}
    alone = [trainer(tmp_path / f"{name}-alone", i, size) for i, (name, size) in enumerate(sizes.items())]
    assert [one.run() for one in alone] == ["epochs"] * 3
    recording()
    joint = [trainer(tmp_path / name, i, size) for i, (name, size) in enumerate(sizes.items())]
    assert run_together(joint) == ["epochs"] * 3
    for one, two in zip(joint, alone, strict=True):
        assert [one.progress.step, one.progress.epoch] == [two.progress.step, two.progress.epoch]
        assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(two), strict=True))


def test_those_that_end_leave_and_the_others_are_recorded_anew(tmp_path, way, recording, monkeypatch):
    held = []

    class Watched(Joint):
        def __init__(self, lanes):
            gc.collect()
            assert all(captured() is None for captured in held) or way == "turns"
            super().__init__(lanes)
            held.append(weakref.ref(self._captured))

    monkeypatch.setattr(together, "Joint", Watched)
    epochs = (1, 3, 2, 3)
    alone = [trainer(tmp_path / f"{i}-alone", i, 48, epochs=count) for i, count in enumerate(epochs)]
    for one in alone:
        one.run()
    recording()
    joint = [trainer(tmp_path / str(i), i, 48, epochs=count) for i, count in enumerate(epochs)]
    assert run_together(joint) == ["epochs"] * 4
    for one, two in zip(joint, alone, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(two), strict=True))
    if way == "joint":
        assert JointStandIn.recordings == [4, 3, 2]
        assert JointStandIn.replays == 3 * (6 - 3)  # each is warmed up anew
        assert [one.graph for one in joint] == [True] * 4
        assert len(held) == 3
        assert all(one._joint is None for one in joint)


def test_a_recording_that_fails_changes_no_number(tmp_path, way, recording, monkeypatch):
    alone = [trainer(tmp_path / f"{i}-alone", i, 48) for i in range(2)]
    for one in alone:
        one.run()
    recording()

    def fails(self, body):
        JointStandIn.record(self, body)  # the Python of the bodies has run
        raise RuntimeError("no")

    monkeypatch.setattr(together, "CudaGraph", type("Failing", (JointStandIn,), {"record": fails}))
    joint, told = [trainer(tmp_path / str(i), i, 48) for i in range(2)], []
    for one in joint:
        one.listener, one._expects_graph = Listener(note=told.append), True
    run_together(joint)
    for one, two in zip(joint, alone, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(two), strict=True))
    if way == "joint":
        assert [one.graph for one in joint] == ["recording failed: no"] * 2
        assert told == ["iterations are launched one by one, not as a CUDA graph: recording failed: no"] * 2


def test_nothing_is_recorded_where_a_trainer_refuses(tmp_path, way):
    pair = [trainer(tmp_path / str(i), i, 48) for i in range(2)]
    pair[0].work.refusal = None
    run_together(pair)
    assert JointStandIn.recordings == []
    assert pair[1].graph == "CUDA graphs need a GPU"


def test_a_run_that_meets_nan_ends_and_the_others_do_not(tmp_path):
    """On a CPU `lif` refuses it within an iteration, which no other run must suffer from."""
    alone = trainer(tmp_path / "alone", 0)
    alone.run()
    good, bad = trainer(tmp_path / "good", 0), trainer(tmp_path / "bad", 1)
    with torch.no_grad():
        bad.net.layers[0].synapse.bias.fill_(float("nan"))
    assert run_together([bad, good]) == ["nan", "epochs"]
    assert all(torch.equal(a, b) for a, b in zip(weights(good), weights(alone), strict=True))
    assert bad.progress.warnings
    assert not good.progress.warnings


def test_an_error_in_one_ends_all_and_leaves_no_key(tmp_path, way):
    one, two = trainer(tmp_path / "a", 0), trainer(tmp_path / "b", 1)

    def fail(row):
        raise OSError("full")

    two.listener = Listener(epoch_ends=fail)
    with pytest.raises(OSError, match="full"):
        run_together([one, two])
    assert one.net.layers[0].dropout.key is None
    assert two.net.layers[0].dropout.key is None


def test_nothing_of_a_joint_step_outlives_those_who_left_it(tmp_path, way, recording):
    if way == "turns":
        pytest.skip("nothing is recorded")
    recording()
    pair = [trainer(tmp_path / str(seed), seed, 80) for seed in range(2)]
    for one in pair:
        one.begin_epoch()
    joint = Joint(Lane.for_trainer(one) for one in pair)
    for _ in range(5):
        joint.step()
    assert [one.graph for one in pair] == [True, True]
    held = weakref.ref(joint._captured)
    gc.disable()
    try:
        joint.leave()
        del joint
        assert held() is None  # without a collection
    finally:
        gc.enable()
    assert [one.graph for one in pair] == [True, True]
    assert all(one.observed is None for one in pair)
    assert all(parameter.grad is None for one in pair for parameter in one.net.parameters())


def test_what_the_last_iteration_saw_is_let_go_before_the_next(tmp_path, monkeypatch):
    """Its memory is the next one's, and in autograd it holds on to streams."""
    monkeypatch.setattr(iteration, "planned_on", lambda device: True)
    one, held = trainer(tmp_path, 0, 80), []
    body = one.work.body
    one.work.body = lambda size: held.append(one.observed) or body(size)
    one.begin_epoch()
    joint = Joint([Lane.for_trainer(one)])
    for _ in range(3):
        joint.step()
        assert one.observed is not None
    assert held == [None] * 3


def test_what_cannot_be_together(tmp_path):
    with pytest.raises(ValueError, match="must be on one device, but are on none"):
        run_together([])
    with pytest.raises(ValueError, match="each trainer needs a folder of its own"):
        run_together([trainer(tmp_path / "a", 0), trainer(tmp_path / "a", 1)])
    shared = trainer(tmp_path / "a", 0)
    shared.world = replace(shared.world, size=2)
    with pytest.raises(ValueError, match="one process trains them all; leave torchrun out"):
        run_together([shared])


# ---- Streams, with stand-ins for them


class Streams:
    """Streams by name, the current one, and a log of who waits for whom and what runs where."""

    def __init__(self, monkeypatch, *, recording):
        self.now, self.log, self.made = self.named("here"), [], 0
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: self.now)
        monkeypatch.setattr(torch.cuda, "stream", self.on)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: recording)
        monkeypatch.setattr(torch.cuda, "Stream", self.make)

    def named(self, name):
        def wait_stream(other):
            self.log.append(f"{name} waits for {other.name}")

        return SimpleNamespace(name=name, cuda_stream=name, device="cuda", wait_stream=wait_stream)

    def make(self, device):
        self.made += 1
        return self.named(f"pool {(self.made - 1) % 4}")

    @contextmanager
    def on(self, stream):
        before, self.now = self.now, stream
        yield
        self.now = before

    def lane(self, name):
        def body(size):
            self.log.append(f"{size} of {name} on {self.now.name}")
            return name

        return Lane(SimpleNamespace(work=SimpleNamespace(body=body)), self.named(name))


def test_in_a_recording_nobody_waits_for_another(monkeypatch):
    streams = Streams(monkeypatch, recording=True)
    assert together._bodies([streams.lane("a"), streams.lane("b")], [8, 4]) == ["a", "b"]
    begin, end = ["a waits for here", "b waits for here"], ["here waits for a", "here waits for b"]
    assert streams.log == [*begin, "8 of a on a", "4 of b on b", *end]


def test_without_one_they_follow_each_other(monkeypatch):
    streams = Streams(monkeypatch, recording=False)
    together._bodies([streams.lane("a"), streams.lane("b")], [8, 8])
    turns = [[f"{name} waits for here", f"8 of {name} on {name}", f"here waits for {name}"] for name in "ab"]
    assert streams.log == turns[0] + turns[1]


def test_work_aside_is_beside_its_own_stream(monkeypatch):
    streams = Streams(monkeypatch, recording=True)
    monkeypatch.setattr(side_stream, "_streams", {})
    device, seen = torch.device("cuda", 0), {}
    for name in ("a", "b", "a", "pool 2"):
        with streams.on(streams.named(name)):
            work = side_stream.SideStream(device)
            work.join()  # nothing to wait for yet
            with work.queue(torch.zeros(1)):
                seen.setdefault(name, []).append(streams.now.name)
            work.join()
            work.join()
        beside = seen[name][-1]
        assert streams.log == [f"{beside} waits for {name}", f"{name} waits for {beside}"]
        streams.log.clear()
    assert seen == {"a": ["pool 0"] * 2, "b": ["pool 1"], "pool 2": ["pool 3"]}
    for name in "cd":  # none is left: shared, but not its own
        with streams.on(streams.named(name)), side_stream.SideStream(device).queue(torch.zeros(1)):
            assert streams.now.name != name


# ---- What is told


def test_one_listener_is_told_of_all(tmp_path):
    told = []
    listeners = TrialListeners(
        Listener(
            epoch_begins=lambda *place: told.append(("begins", *place)),
            iteration=lambda watched: told.append("iteration"),
            epoch_ends=lambda row: told.append((row["trial"], row["epoch"])),
            warning=told.append,
            note=told.append,
        ),
        2,
    )
    pair = [trainer(tmp_path / str(seed), seed, epochs=1 + seed) for seed in range(2)]
    for trial, one in enumerate(pair):
        one.listener = listeners.listener_for(trial)
    run_together(pair)
    epoch = ["iteration"] * 3
    assert told == [("begins", 1, 3, 0), *epoch, (0, 1), (1, 1), ("begins", 2, 3, 0), *epoch, (1, 2)]
    assert all("trial" not in row for one in pair for row in one.progress.rows)
    told.clear()
    for trial in range(2):
        listeners.listener_for(trial).warning("silent")
        listeners.listener_for(trial).note("slow")
    assert told == ["trial 0: silent", "slow", "trial 1: silent"]


def test_the_bar_follows_another_when_the_lead_has_ended():
    moved = []
    listeners = TrialListeners(Listener(iteration=moved.append), 2)
    listeners.listener_for(0).epoch_begins(9, 5, 0)
    listeners.listener_for(1).epoch_begins(2, 5, 0)
    for k in range(5):
        listeners.listener_for(1).iteration({"k": k})
    assert moved == [{"k": 3}, {"k": 4}]


def test_the_command(cli, tmp_path):
    toml = runs.write_experiment(tmp_path)
    arguments = runs.arguments(toml, tmp_path / "out", "--epochs", "1", "--set", "train.tensorboard=false")
    status, _, told = cli(*arguments, "--trials", "2", "--together")
    assert status == 0
    assert "trial 0  epoch   1" in told
    assert "trial 1  epoch   1" in told
    assert (tmp_path / "out" / "trial-1" / "best.safetensors").is_file()
    status, _, told = cli(*arguments, "--together")
    assert status == 1
    assert told.endswith("--together trains several trials side by side; say how many with --trials N\n")


# ---- The benchmark


def test_seeds_are_timed_against_one(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(cases_module.CASES, "shd", tiny("shd"))
    status, out, _ = cli(
        "bench", "shd", "--seeds", "3", "--device", "cpu", "--seconds", "0", "--json", "--out", tmp_path
    )
    assert status == 0
    printed = json.loads(out)
    assert printed == json.loads((tmp_path / "seeds.json").read_text())
    assert printed["seeds"] == 3
    case = printed["cases"]["shd"]
    assert case["one_ms"]["median"] > 0
    assert case["ratio"]["median"] > 1
    status, out, _ = cli("bench", "shd", "--seeds", "2", "--device", "cpu", "--seconds", "0")
    assert status == 0
    assert "2 together, ms" in out
    status, _, told = cli("bench", "layer2k", "--seeds", "2", "--device", "cpu")
    assert status == 1
    assert "layer2k is a single layer that is not trained; choose another case" in told
    assert {case.work for case in select_step_cases([], "cpu")} == {"step"}


def test_joint_steps_go_on_where_an_epoch_ends(tmp_path):
    pair = [trainer(tmp_path / str(seed), seed) for seed in range(2)]
    steps = JointSteps(pair)
    for _ in range(7):
        steps()
    assert [(one.progress.epoch, one.progress.iteration, one.progress.step) for one in pair] == [(2, 1, 7)] * 2


# ---- On a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("net.backend=torch",),
        ("train.optimizer=sgd", "train.momentum=0.9"),
        ("train.optimizer=adamw", "train.weight_decay=0.5", "net.surrogate=sigmoid"),
    ],
)
def test_trials_together_on_the_gpu_are_trials_alone(tmp_path, settings):
    device = torch.device("cuda", 0)
    train(tmp_path, "alone", *settings, device=device)
    train(tmp_path, "together", *settings, together=True, device=device)
    assert [trial_summary(tmp_path / "together", trial)["graph"] for trial in range(3)] == [True] * 3
    require_equal_trials(tmp_path / "together", tmp_path / "alone")
