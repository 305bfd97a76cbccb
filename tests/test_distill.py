"""A run as a teacher: the loss's laws, the table of its probabilities, and whole runs that learn from it."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import runs_helper as runs
import test_replays
import test_together
from bitspike import Constant, build, cross_entropy_loss, load_run
from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Images
from bitspike.experiments.assembly import Setting, choose_task, differences, identity, splits
from bitspike.experiments.runs import train_run, train_trials
from bitspike.experiments.saved import evaluate_run
from bitspike.experiments.schema import as_toml, read_experiment, with_values
from bitspike.experiments.teacher import find_teachers
from bitspike.files import digest
from bitspike.ops import LIFOutput
from bitspike.train import iteration, together
from bitspike.train.config import TrainConfig
from bitspike.train.distill import soft_targets
from bitspike.train.evaluation import evaluate
from bitspike.train.loop import Listener, Trainer
from bitspike.train.losses import judge_distilled
from bitspike.train.run_folder import RunFolder
from bitspike.train.tasks import CountTask, CrossEntropyTask, DistillTask
from bitspike.train.world import World

STEPS, BATCH, CLASSES = 7, 5, 4
SCALES = st.floats(0.5, 20)
HEAT = st.floats(0.3, 8)
SHARE = st.floats(0.01, 1)
FIXED = [Constant(1.0), Constant(1.0)]


def drawn(seed, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    spikes = (torch.rand(STEPS, BATCH, CLASSES, generator=g) < 0.4).to(dtype).requires_grad_()
    return spikes, torch.randint(0, CLASSES, (BATCH,), generator=g), torch.rand(BATCH, CLASSES, generator=g)


def softened(spikes, scale, temperature):
    return (scale * spikes.detach().sum(0) / STEPS / temperature).softmax(1)


def judged(spikes, labels, targets, *, scale=10.0, smoothing=0.0, weight=1.0, temperature=1.0):
    return judge_distilled(
        spikes, labels, targets, scale=scale, smoothing=smoothing, weight=weight, temperature=temperature
    )


# ---- The loss


@given(st.integers(0, 999), SCALES, HEAT)
def test_a_student_that_is_its_own_teacher_learns_nothing(seed, scale, temperature):
    spikes, labels, _ = drawn(seed)
    loss, _ = judged(spikes, labels, softened(spikes, scale, temperature), scale=scale, temperature=temperature)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert spikes.grad.abs().max() < 1e-14 * scale * temperature


@given(st.integers(0, 999), SCALES)
def test_a_teacher_that_says_the_labels_is_plain_cross_entropy(seed, scale):
    spikes, labels, _ = drawn(seed)
    loss, _ = judged(spikes, labels, torch.eye(CLASSES)[labels], scale=scale)
    plain = cross_entropy_loss(spikes, labels, scale)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-12)
    ours, theirs = (torch.autograd.grad(each, spikes)[0] for each in (loss, plain))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@given(st.integers(0, 999), SCALES, HEAT, SHARE, st.floats(0, 0.9))
def test_the_loss_is_what_it_says(seed, scale, temperature, weight, smoothing):
    spikes, labels, raw = drawn(seed)
    q = raw.double().softmax(1)
    loss, right = judged(spikes, labels, q, scale=scale, smoothing=smoothing, weight=weight, temperature=temperature)
    p = softened(spikes, scale, temperature)
    apart = (q * (q / p).log()).sum(1).mean()
    plain = cross_entropy_loss(spikes, labels, scale, smoothing)
    assert loss.item() == pytest.approx(((1 - weight) * plain + weight * temperature**2 * apart).item(), rel=1e-9)
    assert torch.equal(right, spikes.sum(0).argmax(1) == labels)


def test_the_gradient_is_one_for_all_steps():
    """As an expanded tensor: no memory for T copies of it."""
    spikes, labels, targets = drawn(0, torch.float32)
    strides = []
    through = spikes * 1
    through.register_hook(lambda gradient: strides.append(gradient.stride(0)))
    judged(through, labels, targets.softmax(1), weight=0.5)[0].backward()
    assert strides == [0]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"targets": torch.zeros(BATCH, CLASSES + 1)}, r"targets must be probabilities of shape \[5, 4\]"),
        ({"targets": torch.zeros(BATCH, CLASSES, dtype=torch.int64)}, "but are torch.int64"),
        ({"weight": 0.0}, r"weight must be in \(0, 1\], but is 0.0"),
        ({"weight": 1.5}, r"weight must be in \(0, 1\]"),
        ({"temperature": 0.0}, "temperature must be > 0"),
        ({"scale": -1.0}, "distill: scale must be > 0"),
    ],
)
def test_what_the_loss_refuses(changed, says):
    spikes, labels, targets = drawn(0)
    with pytest.raises(ValueError, match=says):
        judged(**{"spikes": spikes, "labels": labels, "targets": targets, **changed})


# ---- The task, in an iteration


def network(seed=0, notation="2Conv3-AP2-18Dense3"):
    return build(
        notation, (1, 8, 8), norm="shared", dropout=0.3, steps=6, generator=torch.Generator().manual_seed(seed)
    )


def images(n=23, seed=0):
    g = torch.Generator().manual_seed(seed)
    return Images(torch.randint(0, 256, (n, 1, 8, 8), generator=g).to(torch.uint8), torch.arange(n) % 3)


def test_evaluations_judge_by_labels_alone():
    spikes, labels, targets = drawn(0)
    plain = CrossEntropyTask(6.0, 0.2)
    task, output = DistillTask(plain, targets, 0.7, 2.0), LIFOutput(spikes, None, None)
    assert torch.equal(task.judge(output, labels)[0], plain.judge(output, labels)[0])
    assert torch.equal(task.loss(output, labels), plain.loss(output, labels))
    assert torch.equal(task.correct(output, labels), plain.correct(output, labels))
    rows = torch.tensor([4, 0, 0, 2, 1])
    taught, _ = task.judge_taught(output, labels, rows)
    wanted, _ = judged(spikes, labels, targets[rows], scale=6.0, smoothing=0.2, weight=0.7, temperature=2.0)
    assert torch.equal(taught, wanted)


def test_an_iteration_takes_the_rows_of_its_samples(tmp_path, monkeypatch):
    """The target of row i says i, and so does its label's place: what is judged together belongs together."""
    samples = images()
    asked = []
    task = DistillTask(CrossEntropyTask(), torch.rand(23, 3))

    def judging(self, output, labels, rows):
        assert torch.equal(samples.labels[rows], labels)
        asked.append(rows.clone())
        return self.plain.judge(output, labels)

    monkeypatch.setattr(DistillTask, "judge_taught", judging)
    config = TrainConfig(lr=0.01, batch=8, epochs=1, tensorboard=False, loss="cross_entropy")
    Trainer(network(), FIXED, task, samples, samples, config, RunFolder(tmp_path), seed=0).train_epoch()
    assert [len(rows) for rows in asked] == [8, 8, 7]
    assert torch.equal(torch.cat(asked).sort().values, torch.arange(23))


def test_a_table_of_other_samples_is_refused(tmp_path):
    samples = images()
    config = TrainConfig(lr=0.01, tensorboard=False, loss="cross_entropy")
    with pytest.raises(ValueError, match="a row for each of 23 training samples on cpu, but are 22 on cpu"):
        Trainer(
            network(), FIXED, DistillTask(CrossEntropyTask(), torch.rand(22, 3)), samples, samples, config,
            RunFolder(tmp_path), seed=0,
        )  # fmt: skip


# ---- The table


def test_the_table_is_what_the_network_says_in_evaluation_mode():
    net, samples = network().train(), images()
    table = soft_targets(net, samples, scale=4.0, temperature=2.0, batch=5)
    assert net.training
    net.eval()
    with torch.no_grad():
        count = net(samples.batch(torch.arange(23))[0]).spikes.sum(0).double()
    torch.testing.assert_close(table, (count * 4 / 6 / 2).softmax(1), rtol=1e-12, atol=0)
    right = evaluate(net, samples, CountTask(), batch=23).accuracy
    said = (table.argmax(1) == samples.labels) & (count.amax(1) > 0)  # silence is no answer
    assert said.double().mean().item() == pytest.approx(right)


class Silent(World):
    """One of several processes, whose sums nobody else joins."""

    def sum_(self, tensor):
        return tensor


@pytest.mark.parametrize("size", [2, 3, 30])
def test_processes_ask_about_shares_that_add_up(size):
    net, samples = network().eval(), images()
    parts = [soft_targets(net, samples, batch=4, world=Silent(rank, size)) for rank in range(size)]
    assert all(part.shape == (23, 3) for part in parts)
    assert torch.equal(sum(parts), soft_targets(net, samples, batch=4))


# ---- Whole runs

STUDENT = ("train.loss=cross_entropy", "train.logit_scale=8", "train.label_smoothing=0.1", "train.epochs=2")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with an experiment and two runs: `teacher` (float32, wider, by counts) and `other`."""
    folder = tmp_path_factory.mktemp("distill")
    runs.write_experiment(folder)
    more = ("net.binary=false", "net.notation=4Conv3-3Conv3-AP2-12Dense9-9Dense3", "train.logit_scale=77", "seed=5")
    train_run(experiment(folder, "train.epochs=2", *more), folder / "teacher", Setting())
    train_run(experiment(folder, *STUDENT), folder / "other", Setting())
    return folder


def experiment(home, *settings):
    return with_values(read_experiment(home / "tiny.toml"), ["train.tensorboard=false", *settings])


def student(home, *settings, teacher="teacher"):
    return experiment(home, *STUDENT, "train.temperature=2", f"train.teacher={home / teacher}", *settings)


def train(home, out, *settings, teacher="teacher", **setting):
    return train_run(student(home, *settings, teacher=teacher), out, Setting(**setting))


def interrupting(after):
    asked = []
    return Listener(interrupted=lambda: asked.append(None) or len(asked) > after)


def caught(home, out, monkeypatch, *settings, teacher="teacher"):
    """The trainer of a run, before its first iteration."""
    made = []
    monkeypatch.setattr(Trainer, "run", lambda self: made.append(self) or "interrupted")
    train(home, out, *settings, teacher=teacher)
    return made[0]


@pytest.mark.parametrize("more", [("train.protocol=holdout",), ("train.protocol=paper", "data.train_limit=30")])
def test_the_rows_are_those_of_the_samples_that_train(home, tmp_path, monkeypatch, more):
    trainer = caught(home, tmp_path, monkeypatch, *more)
    spec = student(home, *more)
    samples = splits(spec, open_dataset(spec.data))["train"]
    assert torch.equal(trainer.samples.values, samples.values)
    # trained by counts: its logits are 10 * n / T, whatever its unused logit_scale says
    wanted = soft_targets(load_run(home / "teacher"), samples, scale=10.0, temperature=2.0, batch=256)
    assert torch.equal(trainer.task.targets, wanted.float())
    assert (trainer.task.weight, trainer.task.temperature, trainer.task.plain) == (0.5, 2.0, CrossEntropyTask(8.0, 0.1))


def test_a_teacher_trained_by_cross_entropy_keeps_its_own_scale(home, tmp_path, monkeypatch):
    trainer = caught(home, tmp_path, monkeypatch, "train.logit_scale=3", "train.precision=float64", teacher="other")
    wanted = soft_targets(load_run(home / "other"), trainer.samples, scale=8.0, temperature=2.0, batch=256)
    assert torch.equal(trainer.task.targets, wanted)


def test_a_run_learns_from_its_teacher_and_says_so(home, tmp_path):
    summary = train(home, tmp_path / "run")
    plain = train_run(experiment(home, *STUDENT), tmp_path / "plain", Setting())
    told = json.loads((tmp_path / "run" / "summary.json").read_text())["teacher"]
    taught = evaluate_run(home / "teacher", "train", Setting()).result.accuracy
    theirs = json.loads((home / "teacher" / "summary.json").read_text())
    assert (
        told
        == summary["teacher"]
        == {
            "run": str(home / "teacher"),
            "networks": 1,
            "experiment": "tiny",
            "protocol": "holdout",
            "accuracies": [theirs["accuracy"]],
            "train_accuracy": taught,
            "digest": digest(home / "teacher" / "best.safetensors"),
        }
    )
    assert plain["teacher"] is None
    assert runs.rows(tmp_path / "run")[0]["train_loss"] != runs.rows(tmp_path / "plain")[0]["train_loss"]
    # judged by labels, here and afterwards, when no teacher is asked
    judged = evaluate_run(tmp_path / "run", "valid", Setting()).result
    assert judged.loss == runs.rows(tmp_path / "run")[summary["best_epoch"] - 1]["valid_loss"]
    assert isinstance(choose_task(student(home), 4), CrossEntropyTask)


def test_a_run_stopped_and_resumed_is_the_run_never_stopped(home, tmp_path):
    train(home, tmp_path / "whole")
    assert train(home, tmp_path / "parts", listener=interrupting(4)) is None
    assert train(home, tmp_path / "parts", resume=True) is not None
    runs.require_equal(tmp_path / "parts", tmp_path / "whole")


def test_a_run_with_replays_is_the_run_without(home, tmp_path, monkeypatch):
    train(home, tmp_path / "host", "train.shift=1")
    monkeypatch.setattr(iteration, "planned_on", lambda device: True)
    train(home, tmp_path / "plain", "train.shift=1", graph="off")
    monkeypatch.setattr(iteration, "no_graph", lambda device, world: None)
    monkeypatch.setattr(iteration, "CudaGraph", test_replays.StandIn)
    monkeypatch.setattr(test_replays.StandIn, "replays", 0)
    assert train(home, tmp_path / "replayed", "train.shift=1")["graph"] is True
    test_replays.require_equal_but_for_the_graph(tmp_path / "replayed", tmp_path / "plain")


def test_trials_together_ask_once_and_are_trials_alone(home, tmp_path, monkeypatch):
    monkeypatch.setattr(iteration, "planned_on", lambda device: True)
    notes = []
    setting = Setting(listener=Listener(note=notes.append))
    train_trials(student(home), tmp_path / "alone", 2, Setting(graph="off"))
    monkeypatch.setattr(iteration, "no_graph", lambda device, world: None)
    monkeypatch.setattr(together, "CudaGraph", test_together.StandIn)
    monkeypatch.setattr(test_together.StandIn, "recordings", [])
    made = train_trials(student(home), tmp_path / "together", 2, setting, together=True)
    test_together.require_equal(tmp_path / "together", tmp_path / "alone", trials=2)
    assert made["teacher"]["digest"] == digest(home / "teacher" / "best.safetensors")
    assert [note for note in notes if "teacher" in note] == [
        f"teacher {home / 'teacher'}: {made['teacher']['train_accuracy']:.2%} of the training samples right"
    ]


def test_two_processes_are_one(home, tmp_path):
    sets = (*STUDENT, "train.precision=float64", f"train.teacher={home / 'teacher'}", "train.teacher_weight=0.9")
    for name, size in (("one", 1), ("two", 2)):
        argv = runs.arguments(home / "tiny.toml", tmp_path / name, *(part for each in sets for part in ("--set", each)))
        ended = runs.wait_all(runs.start_ranks(size, argv, tmp_path))
        assert [each.code for each in ended] == [0] * size, [each.err for each in ended]
    one, two = (runs.flat(runs.checkpoint(tmp_path / name)) for name in ("one", "two"))
    for path, value in one.items():
        if isinstance(value, torch.Tensor) and "/net/" in path:
            torch.testing.assert_close(two[path], value, rtol=1e-9, atol=1e-9)
    for a, b in zip(runs.rows(tmp_path / "one"), runs.rows(tmp_path / "two"), strict=True):
        assert b["train_loss"] == pytest.approx(a["train_loss"], rel=1e-9)


# ---- Which teacher


def test_a_teacher_is_known_by_its_weights_wherever_it_lies(home, tmp_path):
    assert train(home, tmp_path / "run", listener=interrupting(3)) is None
    shutil.copytree(home / "teacher", tmp_path / "moved")
    done = train(home, tmp_path / "run", teacher=tmp_path / "moved", resume=True)
    assert done["teacher"]["run"] == str(tmp_path / "moved")
    assert train(home, tmp_path / "run", resume=True) == done  # complete: from where it was at first, too
    with pytest.raises(ValueError, match=r"holds another experiment: its teacher was .* is another"):
        train(home, tmp_path / "run", teacher="other", resume=True)
    with pytest.raises(ValueError, match=r"train\.teacher was '.*moved', is None"):
        train(home, tmp_path / "run", "train.teacher=none", resume=True)


def test_a_run_does_not_go_on_with_another_teacher(home, tmp_path):
    shutil.copytree(home / "teacher", tmp_path / "teacher")
    at = tmp_path / "teacher"
    assert train(home, tmp_path / "run", teacher=at, listener=interrupting(3)) is None
    with pytest.raises(ValueError, match="belongs to another experiment"):
        train(home, tmp_path / "run", teacher="other", resume=True)
    shutil.rmtree(at)
    says = r"train\.teacher: .*teacher holds no run \(any more\) and is no file; .*: --set train\.teacher=RUN"
    with pytest.raises(FileNotFoundError, match=says) as error:
        train(home, tmp_path / "run", teacher=at, resume=True)
    assert "\n" not in str(error.value)
    assert (tmp_path / "run" / "last.ckpt").is_file()


def test_what_two_experiments_differ_in(home):
    one, two, none = student(home), student(home, teacher="other"), experiment(home, *STUDENT)
    assert differences(one, two) == []
    assert differences(one, with_values(none, ["train.temperature=2"]))[0].startswith("train.teacher was ")

    class Data:
        edition = "test"

    assert identity(one, Data, "a") == identity(two, Data, "a") != identity(one, Data, "b")
    assert identity(one, Data, "a") != identity(with_values(one, ["train.teacher_weight=0.6"]), Data, "a")
    with pytest.raises(ValueError, match="give the digest of its weights"):
        identity(one, Data)


def test_paths_are_relative_to_the_file_or_to_the_user(home, tmp_path, monkeypatch):
    text = as_toml(experiment(home, *STUDENT)).replace("[train]\n", '[train]\nteacher = "../runs/t"\n')
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "mine.toml").write_text(text)
    spec = read_experiment(tmp_path / "in" / "mine.toml")
    assert spec.train.teacher == tmp_path / "runs" / "t"
    monkeypatch.chdir(tmp_path)
    assert with_values(spec, ["train.teacher=some/run"]).train.teacher == tmp_path / "some" / "run"
    assert with_values(spec, ["train.teacher=none"]).train.teacher is None
    assert f'teacher = "{tmp_path}/runs/t"' in as_toml(spec)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("train.loss=count", r"train\.teacher belongs to train\.loss = 'cross_entropy', but the loss is 'count'"),
        ("train.teacher_weight=0", r"train\.teacher_weight: must be greater than 0, but is 0"),
        ("train.teacher_weight=1.1", r"train\.teacher_weight: must be less than or equal to 1"),
        ("train.temperature=0", r"train\.temperature: must be greater than 0"),
        ("train.teacher=5", r"train\.teacher: must be"),
    ],
)
def test_what_the_experiment_refuses(home, setting, says):
    with pytest.raises(ValueError, match=says) as error:
        student(home, setting)
    assert "\n" not in str(error.value)


def test_trials_teach_with_the_mean_of_their_probabilities(home, tmp_path, monkeypatch):
    for trial, run in enumerate(("teacher", "other")):
        shutil.copytree(home / run, tmp_path / "both" / f"trial-{trial}")
    trainer = caught(home, tmp_path / "run", monkeypatch, "train.precision=float64", teacher=tmp_path / "both")
    asked = [
        soft_targets(load_run(home / run), trainer.samples, scale=scale, temperature=2.0, batch=256)
        for run, scale in (("teacher", 10.0), ("other", 8.0))
    ]
    torch.testing.assert_close(trainer.task.targets, (asked[0] + asked[1]) / 2, rtol=1e-15, atol=0)


def test_trials_that_teach_are_named_and_known_by_all_their_weights(home, tmp_path):
    for trial, run in enumerate(("teacher", "other")):
        shutil.copytree(home / run, tmp_path / "both" / f"trial-{trial}")
        shutil.copytree(home / run, tmp_path / "turned" / f"trial-{1 - trial}")
    told = train(home, tmp_path / "run", teacher=tmp_path / "both")["teacher"]
    theirs = [json.loads((home / run / "summary.json").read_text())["accuracy"] for run in ("teacher", "other")]
    assert (told["networks"], told["accuracies"], told["experiment"]) == (2, theirs, "tiny")
    both, turned = (find_teachers(student(home, teacher=tmp_path / name)) for name in ("both", "turned"))
    one = find_teachers(student(home, teacher=tmp_path / "both" / "trial-0"))
    assert both.digest == turned.digest == told["digest"] != one.digest == digest(home / "teacher" / "best.safetensors")
    (tmp_path / "both" / "trial-0.bak").mkdir()  # no trial
    (tmp_path / "both" / "trial-7").mkdir()
    assert [teacher.run.name for teacher in find_teachers(student(home, teacher=tmp_path / "both")).each] == [
        "trial-0",
        "trial-1",
    ]
    (tmp_path / "both" / "trial-1" / "summary.json").unlink()
    with pytest.raises(ValueError, match=r"both holds trials, but trial-1 is not complete; finish it, or name one run"):
        find_teachers(student(home, teacher=tmp_path / "both"))
    (one.place / "best.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"train\.teacher: .*best\.safetensors does not exist"):
        find_teachers(student(home, teacher=one.place))


def test_a_teacher_of_other_data_is_refused(home, tmp_path):
    shutil.copytree(home / "teacher", tmp_path / "teacher")
    toml = tmp_path / "teacher" / "experiment.toml"
    toml.write_text(re.sub(r'file = ".*"', 'name = "mnist"', toml.read_text()))
    with pytest.raises(ValueError, match=r"was trained on mnist, but this is own\.npz; choose a run on the same data"):
        train(home, tmp_path / "run", teacher=tmp_path / "teacher")
    assert not (tmp_path / "run").exists()


def test_a_teacher_of_other_classes_or_shapes_is_refused(home, tmp_path):
    with pytest.raises(ValueError, match=r"teacher has 3 outputs, but net\.notation .* has 4; both must tell"):
        train(home, tmp_path / "run", "net.notation=3Conv3-3Conv3-AP2-12Dense6-6Dense4")
    np.savez(tmp_path / "own.npz", images=np.zeros((30, 10, 8), np.uint8), labels=np.arange(30) % 3)
    wide = ("net.notation=3Conv3-3Conv3-AP2-18Dense6-6Dense3", f"data.file={tmp_path / 'own.npz'}")
    with pytest.raises(ValueError, match=r"takes samples of shape \(1, 8, 8\), but own\.npz has \(1, 10, 8\)"):
        train(home, tmp_path / "run", *wide)
