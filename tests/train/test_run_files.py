"""The files of a run vouch for each other: whatever a kill, a full disk or a hand leaves apart is made good or told."""

import json
import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import bitspike
from bitspike.data.datasets import open_dataset
from bitspike.data.fingerprint import fingerprint
from bitspike.data.samples import Images, frames_from_dense
from bitspike.experiments import summaries
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import identity
from bitspike.experiments.runs import train_run, train_trials
from bitspike.experiments.saved import evaluate_run
from bitspike.experiments.schema import read_experiment
from bitspike.train import checkpoint
from bitspike.train.loop import Trainer
from bitspike.train.progress import Listener
from bitspike.train.run_folder import RunFolder
from helpers import runs

EPOCHS = 4
CHOICES = {"best": (), "last": ("train.choose=last",)}


class StopHere(Exception):
    """A process that ends in the middle of its work."""


def experiment(folder, *settings, epochs=EPOCHS):
    path = folder / "tiny.toml"
    if not path.is_file():
        runs.write_experiment(folder)
    return read_experiment(path, [f"train.epochs={epochs}", "train.tensorboard=false", *settings])


def summary_of(out):
    return json.loads((out / "summary.json").read_text())


def results(out):
    """What a run came to, without clocks and names."""
    told = summary_of(out)
    kept = (
        "accuracy",
        "best_epoch",
        "valid_accuracy",
        "test_loss",
        "epochs",
        "steps",
        "ended",
        "dead",
        "spikes",
        "theta",
    )
    return {key: told[key] for key in kept}, runs.rows(out), (out / "best.safetensors").read_bytes()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    runs.write_experiment(folder)
    return folder


@pytest.fixture(scope="module")
def whole(home):
    """Runs that nothing disturbed, by choice and epochs."""
    made = {}

    def run(choice, epochs):
        if (choice, epochs) not in made:
            made[choice, epochs] = home / f"whole-{choice}-{epochs}"
            train_run(experiment(home, *CHOICES[choice], epochs=epochs), made[choice, epochs], RunOptions())
        return made[choice, epochs]

    return run


def stopped_at(monkeypatch, name, nth, moment):
    """Let the n-th write of the file `name` fail: before the move, as on a full disk, or right after it, as a kill."""
    calls = []
    moved = Path.replace

    def replace(self, target):
        calls.extend([name] * (Path(target).name == name))
        due = Path(target).name == name and len(calls) == nth
        if due and moment == "before":
            raise StopHere
        found = moved(self, target)
        if due:
            raise StopHere
        return found

    monkeypatch.setattr(Path, "replace", replace)


# ---- best.safetensors and last.ckpt


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", ["best.safetensors", "last.ckpt", "metrics.jsonl"])
@pytest.mark.parametrize(
    ("nth", "choice"),
    [
        (1, "best"),
        (2, "last"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, "last"), (2, "best"), (3, "best"), (3, "last"))),
    ],
)
def test_a_run_stopped_between_two_writes_comes_to_the_same(
    name, moment, nth, choice, home, whole, tmp_path, monkeypatch
):
    out, spec = tmp_path / "run", experiment(home, *CHOICES[choice])
    undisturbed = {epochs: results(whole(choice, epochs)) for epochs in range(1, EPOCHS + 1)}
    if name == "best.safetensors" and nth > len(_chosen_epochs(whole(choice, EPOCHS), choice)):
        nth = 1  # so many epochs are not chosen
    with monkeypatch.context() as broken:
        if name == "metrics.jsonl":
            add, calls = RunFolder.add_metrics, []

            def failing(self, row):
                calls.append(row)
                if len(calls) == nth and moment == "before":
                    raise StopHere
                add(self, row)
                if len(calls) == nth:
                    raise StopHere

            broken.setattr(RunFolder, "add_metrics", failing)
        else:
            stopped_at(broken, name, nth, moment)
        with pytest.raises(StopHere):
            train_run(spec, out, RunOptions())
    # fewer epochs than a stopped write had reached: never the network of an epoch that is not in the run
    done = runs.checkpoint(out)["progress"]["epoch"] if (out / "last.ckpt").is_file() else 0
    for epochs in range(max(done, 1), EPOCHS + 1):
        copy = shutil.copytree(out, tmp_path / f"copy-{epochs}")
        train_run(experiment(home, *CHOICES[choice], epochs=epochs), copy, RunOptions(resume=True))
        assert results(copy) == undisturbed[epochs]


def _chosen_epochs(out, choice):
    rows, best, chosen = runs.rows(out), (-1.0, 0.0), []
    for row in rows:
        figures = (row["valid_accuracy"], -row["valid_loss"])
        if choice == "last" or figures > best:
            chosen.append(row["epoch"])
            best = figures
    return chosen


def test_a_full_disk_at_the_best_weights_and_then_fewer_epochs(home, whole, tmp_path, monkeypatch):
    """The checkpoint is an epoch further than is asked for; the weights of the epoch before are still there."""
    out = tmp_path / "run"
    with monkeypatch.context() as broken:
        stopped_at(broken, "best.safetensors", 2, "before")
        with pytest.raises(StopHere):
            train_run(experiment(home, "train.choose=last"), out, RunOptions())
    assert runs.checkpoint(out)["progress"]["epoch"] == 2
    copy = shutil.copytree(out, tmp_path / "copy")
    train_run(experiment(home, "train.choose=last", epochs=1), out, RunOptions(resume=True))
    assert results(out) == results(whole("last", 1))
    train_run(experiment(home, "train.choose=last"), out, RunOptions(resume=True))
    train_run(experiment(home, "train.choose=last"), copy, RunOptions(resume=True))
    assert results(out) == results(copy) == results(whole("last", EPOCHS))


def test_an_older_checkpoint_with_the_weights_of_a_later_epoch(home, whole, tmp_path):
    """What versions that wrote the weights first left behind; the epoch is made again, or the run is refused."""
    out = tmp_path / "run"
    out.mkdir()
    first, second = whole("last", 1), whole("last", 2)
    for name, source in (("experiment.toml", first), ("last.ckpt", first), ("best.safetensors", second)):
        shutil.copy(source / name, out / name)
    state = runs.checkpoint(out)
    state["progress"]["best_digest"] = ""
    state["progress"]["best_epoch"] = 1
    torch.save(state, out / "last.ckpt")
    copy = shutil.copytree(out, tmp_path / "copy")
    train_run(experiment(home, "train.choose=last", epochs=1), out, RunOptions(resume=True))
    assert results(out)[0] == results(whole("last", 1))[0]
    train_run(experiment(home, "train.choose=last", epochs=2), copy, RunOptions(resume=True))
    assert results(copy) == results(whole("last", 2))


def interrupted_after(iterations):
    asked = []

    def interrupted():
        asked.append(None)
        return len(asked) >= iterations

    return RunOptions(listener=Listener(interrupted=interrupted))


def test_weights_that_cannot_be_made_again_are_refused(home, whole, tmp_path):
    out = tmp_path / "run"
    assert train_run(experiment(home), out, interrupted_after(10)) is None  # within the second epoch
    best, before = (out / "best.safetensors").read_bytes(), (out / "metrics.jsonl").read_bytes()
    shutil.copy(whole("last", 1) / "best.safetensors", out / "best.safetensors")
    with pytest.raises(
        ValueError, match=r"is of epoch 1 or of another run, but the best in last\.ckpt is epoch 1; put"
    ):
        train_run(experiment(home), out, RunOptions(resume=True))
    (out / "best.safetensors").unlink()
    with pytest.raises(ValueError, match=r"best\.safetensors is not there or damaged, but the best in last\.ckpt is"):
        train_run(experiment(home), out, RunOptions(resume=True))
    assert (out / "metrics.jsonl").read_bytes() == before
    (out / "best.safetensors").write_bytes(best)
    train_run(experiment(home), out, RunOptions(resume=True))
    assert results(out) == results(whole("best", EPOCHS))


def test_fewer_epochs_than_the_chosen_one_are_refused(home, whole, tmp_path):
    out = shutil.copytree(whole("last", EPOCHS), tmp_path / "run")
    (out / "summary.json").unlink()
    with pytest.raises(
        ValueError, match=r"has done 4 epochs, and the network of epoch 2, the chosen of the first 2, is no"
    ):
        train_run(experiment(home, "train.choose=last", epochs=2), out, RunOptions(resume=True))


def test_within_an_epoch_the_steps_of_whole_ones_are_told(home, whole, tmp_path):
    out, spec = tmp_path / "run", experiment(home)
    assert train_run(spec, out, interrupted_after(10)) is None
    progress = runs.checkpoint(out)["progress"]
    assert (progress["epoch"], progress["iteration"] > 0) == (1, True)
    train_run(experiment(home, epochs=1), out, RunOptions(resume=True))
    assert results(out) == results(whole("best", 1))
    train_run(spec, out, RunOptions(resume=True))
    assert results(out) == results(whole("best", EPOCHS))


@pytest.mark.parametrize("on_dead", ["warn", "stop"])
def test_what_came_later_is_not_of_a_shorter_run(on_dead, home, tmp_path, monkeypatch):
    settings = ("train.watch_every=1", f"train.on_dead={on_dead}")
    one = experiment(home, *settings, epochs=1)
    watch, out = Trainer.watch_batch, tmp_path / "run"

    def silent_in_the_second_epoch(self):
        figures = watch(self)
        if self.progress.step > 6:
            figures["dead"][-1] = 1.0
        return figures

    monkeypatch.setattr(Trainer, "watch_batch", silent_in_the_second_epoch)
    wanted = train_run(one, tmp_path / "one", RunOptions())
    assert (wanted["warnings"], wanted["ended"]) == ([], "epochs")
    assert train_run(experiment(home, *settings), out, interrupted_after(12)) is None
    state = runs.checkpoint(out)
    progress = state["progress"]
    assert (progress["epoch"], progress["iteration"]) == (1, 5)
    (warning,) = progress["warnings"]
    assert "none of its neurons fired from iteration 7 on" in warning
    assert progress["warned_at"] == [9]
    older = shutil.copytree(out, tmp_path / "older")
    found = train_run(one, out, RunOptions(resume=True))
    assert found["results_sha256"] == wanted["results_sha256"]
    assert (found["warnings"], found["ended"]) == ([], "epochs")
    # an earlier version did not note when it warned: its warnings stay
    del progress["warned_at"]
    checkpoint.save_checkpoint(older / "last.ckpt", state)
    found = train_run(one, older, RunOptions(resume=True))
    assert (found["warnings"], found["ended"]) == ([warning], "epochs")


def test_a_lost_attempts_network_is_not_the_new_ones(home, whole, tmp_path, monkeypatch):
    """Without a checkpoint a run begins anew: what the lost one left must not pass for its result."""
    out = shutil.copytree(whole("best", 1), tmp_path / "run")
    for name in ("last.ckpt", "summary.json"):
        (out / name).unlink()
    (out / "events.out.tfevents.1.old").write_bytes(b"")
    stop = RunOptions(resume=True, listener=Listener(interrupted=lambda: True))
    assert train_run(experiment(home), out, stop) is None
    assert not (out / "best.safetensors").exists()
    assert not list(out.glob("events*"))


def test_a_complete_run_without_its_checkpoint_is_not_overwritten(home, whole, tmp_path):
    out = shutil.copytree(whole("best", 1), tmp_path / "run")
    (out / "last.ckpt").unlink()
    with pytest.raises(ValueError, match=r"is complete after 1 epochs and cannot go on, as its last\.ckpt is gone"):
        train_run(experiment(home), out, RunOptions(resume=True))
    assert results(out) == results(whole("best", 1))


# ---- Trials


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("name", ["best.safetensors", "last.ckpt"])
def test_trials_stopped_between_two_writes(name, together, home, tmp_path, monkeypatch):
    spec = experiment(home, epochs=2)
    train_trials(spec, tmp_path / "whole", 2, RunOptions(), together=together)
    with monkeypatch.context() as broken:
        stopped_at(broken, name, 3, "before")
        with pytest.raises(StopHere):
            train_trials(spec, tmp_path / "run", 2, RunOptions(), together=together)
    train_trials(spec, tmp_path / "run", 2, RunOptions(resume=True), together=together)
    for trial in ("trial-0", "trial-1"):
        assert results(tmp_path / "run" / trial) == results(tmp_path / "whole" / trial)
    one, two = (summary_of(tmp_path / each)["accuracies"] for each in ("run", "whole"))
    assert one == two


@pytest.mark.parametrize("together", [False, True])
def test_interrupted_trials_have_no_old_summary(together, home, tmp_path):
    out = tmp_path / "run"
    assert train_trials(experiment(home, epochs=1), out, 2, RunOptions(), together=together)
    stop = RunOptions(resume=True, listener=Listener(interrupted=lambda: True))
    assert train_trials(experiment(home, epochs=2), out, 2, stop, together=together) is None
    assert not (out / "summary.json").exists()
    again = train_trials(experiment(home, epochs=2), out, 2, RunOptions(resume=True), together=together)
    assert summary_of(out)["accuracies"] == again["accuracies"]


def test_trials_on_replaced_data_are_not_summed_up(home, tmp_path):
    runs.write_experiment(tmp_path)
    assert train_trials(experiment(tmp_path, epochs=1), tmp_path / "run", 1, RunOptions())
    replace_sample(tmp_path / "own.npz")
    with pytest.raises(ValueError, match=r"trial-0 holds another experiment: it was made on sha256"):
        train_trials(experiment(tmp_path, epochs=1), tmp_path / "run", 2, RunOptions(resume=True))
    assert not (tmp_path / "run" / "trial-1").exists()  # told before another trial is trained


# ---- The data


def replace_sample(path):
    arrays = dict(np.load(path))
    arrays["images"] = arrays["images"].copy()
    arrays["images"][7, 0, 0] ^= 1
    np.savez(path, **arrays)


def test_replaced_data_is_refused_by_name(tmp_path):
    runs.write_experiment(tmp_path)
    train_run(experiment(tmp_path, epochs=1), tmp_path / "run", RunOptions())
    replace_sample(tmp_path / "own.npz")
    with pytest.raises(
        ValueError,
        match=r"last\.ckpt belongs to another experiment: the training samples \(.*own\.npz\) were changed since",
    ):
        train_run(experiment(tmp_path, epochs=2), tmp_path / "run", RunOptions(resume=True))


def test_labels_that_an_earlier_version_numbered_otherwise_are_no_other_file(tmp_path, monkeypatch):
    runs.write_experiment(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("bitspike.experiments.comparison.fingerprint", lambda samples: "numbered otherwise")
        train_run(experiment(tmp_path, epochs=1), tmp_path / "run", RunOptions())
    says = r"\(.*own\.npz\) .*come from the same files, but an earlier version numbered labels or drew limits otherwise"
    with pytest.raises(ValueError, match=says):
        train_run(experiment(tmp_path, epochs=2), tmp_path / "run", RunOptions(resume=True))


def test_other_labels_are_not_called_replaced_samples(tmp_path):
    runs.write_experiment(tmp_path)
    train_run(experiment(tmp_path, epochs=1), tmp_path / "run", RunOptions())
    arrays = dict(np.load(tmp_path / "own.npz"))
    np.savez(tmp_path / "own.npz", **{**arrays, "labels": arrays["labels"].max() - arrays["labels"]})
    with pytest.raises(ValueError, match=r"were changed since the run began \(values, labels or order\); put the old"):
        train_run(experiment(tmp_path, epochs=2), tmp_path / "run", RunOptions(resume=True))


def write_shd(folder, seed):
    """Plain HDF5 files, whose checksum nobody knows."""
    h5py = pytest.importorskip("h5py")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = np.random.default_rng(seed)
    for part in ("train", "test"):
        with h5py.File(folder / f"shd_{part}.h5", "w") as file:
            times = file.create_dataset("spikes/times", (40,), dtype=h5py.vlen_dtype(np.float16))
            units = file.create_dataset("spikes/units", (40,), dtype=h5py.vlen_dtype(np.uint16))
            for i in range(40):
                times[i] = np.sort(drawn.random(30)).astype(np.float16)
                units[i] = drawn.integers(0, 700, 30).astype(np.uint16)
            file["labels"] = (np.arange(40) % 20).astype(np.int64)
            file["extra/speaker"] = np.arange(40) // 20


SHD = """
[data]
name = "shd"
steps = 10
[net]
notation = "700Dense20"
beta = 0.9
slope = 5.0
theta = 1.0
[train]
lr = 0.01
"""


def test_plain_files_of_a_known_set_are_known_by_what_they_hold(tmp_path):
    """Their edition is the same whatever they hold; moved they are the same, replaced they are not."""
    write_shd(tmp_path / "data" / "shd", 0)
    (tmp_path / "tiny.toml").write_text(SHD)
    root = tmp_path / "data"
    train_run(experiment(tmp_path, epochs=1), tmp_path / "run", RunOptions(data_root=root))
    moved = shutil.move(root, tmp_path / "elsewhere")
    train_run(experiment(tmp_path, epochs=2), tmp_path / "run", RunOptions(resume=True, data_root=moved))
    assert evaluate_run(tmp_path / "run", "test", RunOptions(data_root=moved)).warnings == []
    before = (moved / "shd" / "shd_train.h5").read_bytes()
    write_shd(moved / "shd", 1)
    (moved / "shd" / "shd_train.h5").write_bytes(before)
    with pytest.raises(ValueError, match=r"the test samples \(.*shd_test\.h5\) were changed since the run began"):
        train_run(experiment(tmp_path, epochs=3), tmp_path / "run", RunOptions(resume=True, data_root=moved))
    assert evaluate_run(tmp_path / "run", "train", RunOptions(data_root=moved)).warnings == []
    (warning,) = evaluate_run(tmp_path / "run", "test", RunOptions(data_root=moved)).warnings
    assert warning.startswith("the test samples (")
    assert warning.endswith(
        "shd_test.h5) were changed since the run was made (values, labels or order): this is not the accuracy on its "
        "own data"
    )


def test_data_that_only_moved_is_the_same(home, whole, tmp_path):
    out = shutil.copytree(whole("best", 1), tmp_path / "run")
    runs.write_experiment(tmp_path)  # the same content in another folder
    train_run(experiment(tmp_path), out, RunOptions(resume=True))
    assert results(out) == results(whole("best", EPOCHS))
    complete = (out / "summary.json").read_bytes()
    train_run(experiment(home), out, RunOptions(resume=True))
    assert (out / "summary.json").read_bytes() == complete
    replace_sample(tmp_path / "own.npz")
    other = shutil.copytree(whole("best", EPOCHS), tmp_path / "complete")
    with pytest.raises(ValueError, match=r"holds another experiment: it was made on sha256 .* hold sha256 "):
        train_run(experiment(tmp_path), other, RunOptions(resume=True))


def as_before(out, spec):
    """last.ckpt as a version wrote it that knew nothing of samples."""
    state = runs.checkpoint(out)
    del state["samples"]
    del state["progress"]["best_digest"]
    state["identity"] = identity(spec, open_dataset(spec.data), paths=True)
    torch.save(state, out / "last.ckpt")


def test_a_checkpoint_of_an_earlier_version_goes_on_and_says_what_it_cannot_know(home, whole, tmp_path):
    out, notes = shutil.copytree(whole("best", 1), tmp_path / "run"), []
    as_before(out, experiment(home))
    train_run(experiment(home), out, RunOptions(resume=True, listener=Listener(note=notes.append)))
    assert notes == [
        f"{out / 'last.ckpt'} is of an earlier version and does not say what its samples held; "
        "they are taken to be the same"
    ]
    assert results(out) == results(whole("best", EPOCHS))


def test_samples_are_known_by_what_they_hold_not_by_how_they_lie():
    values = torch.randint(0, 3, (6, 4, 5))
    values[1] = 0  # a silent sample
    labels = torch.arange(6)
    one = frames_from_dense(values, labels)
    rows = torch.tensor([4, 1, 2])
    assert fingerprint(one.select(rows)) == fingerprint(frames_from_dense(values[rows], labels[rows]))
    assert fingerprint(one) == fingerprint(frames_from_dense(values, labels))
    other = values.clone()
    other[3, 2, 1] += 1
    assert fingerprint(frames_from_dense(other, labels)) != fingerprint(one)
    assert fingerprint(frames_from_dense(values, labels.flip(0))) != fingerprint(one)
    images = Images(torch.rand(3, 1, 2, 2), torch.arange(3))
    assert fingerprint(images) == fingerprint(Images(images.values.clone(), images.labels.clone()))
    assert fingerprint(images) != fingerprint(Images(images.values.view(3, 1, 4, 1), images.labels))


# ---- Folders of others


class Bomb(Exception):
    """Something of the network's size was made."""


@pytest.fixture
def nothing_is_built(monkeypatch):
    def build(*_, **__):
        raise Bomb

    monkeypatch.setattr("bitspike.experiments.saved.build_network", build)


def foreign(folder, notation, tensors, shape, recurrent=False):
    """A run as anyone may have written it: an experiment and weights."""
    folder.mkdir()
    (folder / "experiment.toml").write_text(
        f"""
[data]
name = "mnist"
[net]
notation = "{notation}"
beta = 0.9
slope = 1.0
theta = 1.0
recurrent = {str(recurrent).lower()}
[train]
lr = 0.1
"""
    )
    told = shape if isinstance(shape, str) else json.dumps({"input_shape": shape, "accuracy": 0.5, "epoch": 1})
    save_file(tensors, folder / "best.safetensors", metadata={"bitspike": told})
    return folder


@pytest.mark.parametrize(
    ("notation", "shape", "recurrent", "tensors"),
    [
        ("784Dense500000Dense10", [1, 28, 28], False, {}),
        ("784Dense500000Dense10", [1, 28, 28], False, {"layers.0.synapse.weight": torch.zeros(2, 784)}),
        ("9000Conv200", [900, 300, 300], False, {"layers.0.synapse.weight": torch.zeros(1)}),
        (
            "1Dense70000Dense1",
            [1],
            True,
            {"layers.0.synapse.weight": torch.zeros(70000, 1), "layers.1.synapse.weight": torch.zeros(1, 70000)},
        ),
    ],
)
def test_a_network_is_made_only_if_the_file_holds_it(notation, shape, recurrent, tensors, tmp_path, nothing_is_built):
    folder = foreign(tmp_path / "run", notation, tensors, shape, recurrent)
    with pytest.raises(ValueError, match=r"best\.safetensors holds another network: layers\."):
        bitspike.load_run(folder)
    with pytest.raises(ValueError, match=r"best\.safetensors holds another network: layers\."):
        evaluate_run(folder, "test", RunOptions(data_root=tmp_path))  # before any data is looked for


@pytest.mark.parametrize(
    "told",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"input_shape": [' + "1," * 600_000 + "1]}",
        "null",
        "{",
        '{"input_shape": [true]}',
        '{"input_shape": []}',
        '{"input_shape": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}',
    ],
    ids=["lists", "tables", "long", "null", "half", "truth", "empty", "many"],
)
def test_metadata_made_to_harm_is_one_error(told, tmp_path):
    folder = foreign(tmp_path / "run", "4-2", {"layers.0.synapse.weight": torch.zeros(2, 4)}, told)
    with pytest.raises(
        ValueError, match=r"best\.safetensors (is not a safetensors file, or is damaged|does not say the shape)"
    ):
        bitspike.load_run(folder)


def test_weights_of_another_kind_are_refused(home, whole, tmp_path):
    out = shutil.copytree(whole("best", 1), tmp_path / "run")
    net = bitspike.load_run(out)
    told = {"input_shape": list(net.input_shape), "accuracy": 0.5, "epoch": 1}
    tensors = {name: tensor.to(torch.int32) for name, tensor in net.state_dict().items()}
    save_file(tensors, out / "best.safetensors", metadata={"bitspike": json.dumps(told)})
    with pytest.raises(ValueError, match=r"holds another network: layers\..* is torch\.int32, not torch\.float32"):
        bitspike.load_run(out)


def test_an_experiment_that_was_changed_is_told(home, whole, tmp_path):
    out = shutil.copytree(whole("best", 1), tmp_path / "run")
    toml = out / "experiment.toml"
    text = toml.read_text()
    toml.write_text(text.replace("binary = true", "binary = false"))
    with pytest.raises(
        ValueError, match=r"experiment\.toml is not what best\.safetensors was trained with: another \[net\]"
    ):
        bitspike.load_run(out)
    toml.write_text(text.replace("split_seed = 0", "split_seed = 1"))
    (warning,) = evaluate_run(out, "test", RunOptions()).warnings
    assert warning == f"{toml} was changed since the run was made: this may not be its accuracy"
    toml.write_text(text.replace("lr = 0.01", "lr = 0.01  # a comment"))
    assert evaluate_run(out, "test", RunOptions()).warnings == []


# ---- Checkpoints made to harm


def zipped(path, state, **options):
    """As torch writes it, but packed."""
    torch.save(state, path)
    with zipfile.ZipFile(path) as file:
        entries = {entry.filename: file.read(entry) for entry in file.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as file:
        for name, content in entries.items():
            file.writestr(name, content)


def changed(state, **more):
    """The checkpoint's state with some of its progress changed."""
    return state | {"progress": state["progress"] | more}


def with_moment(state, **more):
    kept = state["optimizer"]
    first = next(iter(kept["state"]))
    return state | {"optimizer": kept | {"state": kept["state"] | {first: kept["state"][first] | more}}}


def with_weight(state, tensor):
    return state | {"net": state["net"] | {"layers.0.synapse.weight": tensor}}


HARM = {
    "negative epoch": lambda s: changed(s, epoch=-1),
    "huge epoch": lambda s: changed(s, epoch=10**30, step=10**30),
    "negative step": lambda s: changed(s, step=-8),
    "step that is not a number": lambda s: changed(s, step=float("nan")),
    "iteration beyond the epoch": lambda s: changed(s, iteration=10**6),
    "a best epoch to come": lambda s: changed(s, best_epoch=99),
    "an accuracy in words": lambda s: changed(s, best_accuracy="high"),
    "rows of others": lambda s: changed(s, rows=[{"epoch": 1}]),
    "no rows": lambda s: changed(s, rows=[]),
    "warnings of numbers": lambda s: changed(s, warnings=[1]),
    "unknown progress": lambda s: changed(s, more=1),
    "another step of thresholds": lambda s: s | {"annealing": s["annealing"] | {"step": 3}},
    "half a table of weights": lambda s: s | {"net": dict(list(s["net"].items())[1:])},
    "weights of another shape": lambda s: with_weight(s, torch.zeros(3)),
    "weights of another dtype": lambda s: with_weight(s, s["net"]["layers.0.synapse.weight"].double()),
    "weights of terabytes": lambda s: with_weight(s, torch.zeros(1).expand(10**12)),
    "sparse weights": lambda s: with_weight(s, s["net"]["layers.0.synapse.weight"].to_sparse()),
    "moments of another shape": lambda s: with_moment(s, exp_avg=torch.zeros(2)),
    "moments of terabytes": lambda s: with_moment(s, exp_avg=torch.zeros(1).expand(10**12)),
    "an optimizer's step that is not a number": lambda s: with_moment(s, step=torch.tensor(float("nan"))),
    "an optimizer's step to come": lambda s: with_moment(s, step=torch.tensor(1e9)),
    "moments of nobody": lambda s: s | {"optimizer": s["optimizer"] | {"state": {77: {}}}},
    "groups of nothing": lambda s: s | {"optimizer": s["optimizer"] | {"param_groups": []}},
    "sums of another shape": lambda s: s | {"sums": torch.zeros(9)},
    "silence of strangers": lambda s: s | {"silent": s["silent"] | {"since": {"layers.9.lif": 1}}},
    "samples in words": lambda s: s | {"samples": "mine"},
    "a list": lambda s: [s],
    "another format": lambda s: s | {"format": 9},
}


@pytest.fixture(scope="module")
def state(whole):
    return runs.checkpoint(whole("best", 1))


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("harm", HARM)
def test_a_checkpoint_made_to_harm_is_one_error(harm, state, home, whole, tmp_path):
    out = shutil.copytree(whole("best", 1), tmp_path / "run")
    torch.save(HARM[harm](state), out / "last.ckpt")
    with pytest.raises(
        ValueError, match=r"last\.ckpt (does not fit this|is not a checkpoint|belongs to another)"
    ) as told:
        train_run(experiment(home), out, RunOptions(resume=True))
    assert "\n" not in str(told.value)


def test_a_packed_checkpoint_is_not_unpacked(state, whole, tmp_path, monkeypatch):
    """A few kilobytes may unpack to any size."""
    path = tmp_path / "last.ckpt"
    zipped(path, state | {"more": torch.zeros(10**6)})
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(ValueError, match="is not a checkpoint of bitspike, or is damaged"):
        checkpoint.load_checkpoint(path)


# ---- Bytes that flip

FLIPS = {"last.ckpt": 25, "best.safetensors": 25, "experiment.toml": 25, "summary.json": 25, "metrics.jsonl": 5}


def flipped(content, drawn):
    at, bit = drawn.randrange(len(content)), drawn.randrange(8)
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("best.safetensors", "metrics.jsonl") else name
        for name in FLIPS
    ],
)
def test_a_flipped_bit_is_an_error_or_changes_nothing(name, home, whole, tmp_path):
    """In any file of a run: resumed, taken for complete, evaluated and loaded."""
    drawn = random.Random(name)
    source, wanted = whole("best", 1), results(whole("best", 2))
    net = bitspike.load_run(source).state_dict()
    judged = evaluate_run(source, "test", RunOptions()).result
    out, errors = tmp_path / "run", []
    for _ in range(FLIPS[name]):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(source, out)
        (out / name).write_bytes(flipped((source / name).read_bytes(), drawn))
        for attempt in (
            lambda: _same_network(out, net),
            lambda: _same_figures(out, judged),
            lambda: _same_summary(train_run(experiment(home, epochs=1), out, RunOptions(resume=True)), source),
            lambda: _same_results(train_run(experiment(home, epochs=2), out, RunOptions(resume=True)), out, wanted),
        ):
            try:
                attempt()
            except (ValueError, TypeError, KeyError, OSError) as error:
                errors.append(str(error))
    assert errors or name == "metrics.jsonl"  # which is written anew
    assert [error for error in errors if str(out) not in error and not error.startswith("data")] == []


def _same_network(out, wanted):
    found = bitspike.load_run(out).state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


def _same_figures(out, wanted):
    found = evaluate_run(out, "test", RunOptions())
    assert found.warnings or found.result == wanted


def _same_summary(found, source):
    kept = ("accuracy", "best_epoch", "valid_accuracy", "test_loss", "epochs", "steps", "ended")
    assert {key: found[key] for key in kept} == {key: summary_of(source)[key] for key in kept}


def _same_results(found, out, wanted):
    assert found["epochs"] == 2
    assert results(out) == wanted


def test_trials_of_any_data_must_have_seen_the_same(home, tmp_path):
    spec, outs = experiment(home), [tmp_path / "trial-0", tmp_path / "trial-1"]
    saw = [{"samples_sha256": {"train": digest}} for digest in "ab"]
    with pytest.raises(ValueError, match=r"trial-0 and .*trial-1 were trained on other samples: the data was replaced"):
        summaries.require_same_samples(spec, saw, outs)
    summaries.require_same_samples(spec, [saw[0], {}], outs)  # an earlier version does not say


def test_a_complete_run_whose_own_file_was_replaced_is_refused(tmp_path):
    spec, out = experiment(tmp_path, epochs=1), tmp_path / "run"
    train_run(spec, out, RunOptions())
    notes = []
    again = RunOptions(resume=True, listener=Listener(note=notes.append))
    assert train_run(spec, out, again)["epochs"] == 1
    held = dict(np.load(tmp_path / "own.npz"))
    np.savez(tmp_path / "own.npz", **(held | {"labels": np.roll(held["labels"], 1)}))
    with pytest.raises(ValueError, match=r"run holds another experiment: it was made on sha256 .*own\.npz hold sha256"):
        train_run(spec, out, again)
    (tmp_path / "own.npz").unlink()
    assert train_run(spec, out, again)["epochs"] == 1  # a complete run needs no data to be shown
    assert notes == []


def test_a_complete_run_asked_for_fewer_epochs_says_how_many_it_took(tmp_path):
    out, notes = tmp_path / "run", []
    train_run(experiment(tmp_path, epochs=2), out, RunOptions())
    shown = RunOptions(resume=True, listener=Listener(note=notes.append))
    assert train_run(experiment(tmp_path, epochs=1), out, shown)["epochs"] == 2
    assert notes == [f"{out} is complete, after 2 epochs, and is shown as it is"]
