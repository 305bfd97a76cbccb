"""Samples passed from Python train like those of a file: a whole run, resumed, evaluated, and refused in words."""

import inspect
import json
import re
import tomllib

import numpy as np
import pytest
import torch

import bitspike
from bitspike.data import Dataset, Images, dataset_from_torch
from bitspike.data.fingerprint import fingerprint
from bitspike.experiments import passed as passed_module
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import samples_digests
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import experiment_on, read_experiment
from bitspike.experiments.speech import SpeechNetwork
from bitspike.train.progress import Listener

SMALL = {"net": {"hidden": [8]}, "train": {"epochs": 2, "tensorboard": False}, "data": {"repeat": 1}}


def recordings(seed=0, samples=60, classes=2, units=6):
    """Rows of (events, label), as tonic's SHD gives them: a later unit for a higher class."""
    rng = np.random.default_rng(seed)
    pairs = []
    for row in range(samples):
        events = np.zeros(30, [("t", "i8"), ("x", "i2"), ("p", "?")])
        events["t"] = np.sort(rng.integers(0, 50_000, 30))
        events["x"] = np.minimum(rng.integers(0, 4, 30) + row % classes * 2, units - 1)
        pairs.append((events, row % classes))
    return pairs


def passed(seed=0, **options):
    return dataset_from_torch(recordings(seed), name="touch", sensor=(6,), polarity=False, **options)


def train(dataset, out, **tables):
    return bitspike.train_on(dataset, out, device="cpu", say=None, **{**SMALL, **tables})


def test_a_run_is_complete(tmp_path):
    data = passed(class_names=("push", "slip"))
    summary = train(data, tmp_path / "run", seed=3)
    held = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert {"experiment.toml", "metrics.jsonl", "summary.json", "best.safetensors", "last.ckpt"} <= set(held)
    assert "curves.png" in held
    text = (tmp_path / "run" / "experiment.toml").read_text()
    assert text.startswith("# bitspike")
    assert "run again with: bitspike.train_on(dataset, OUT)" in text
    values = tomllib.loads(text)
    assert values["data"]["passed"] == values["name"] == "touch"
    assert values["net"]["notation"] == "6-8-2"
    assert values["net"]["readout"] == "membrane"  # of base/sequences
    assert values["sources"]["train.lr"].startswith("base/sequences: ")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["accuracy"] == summary["accuracy"]
    assert summary["seed"] == 3
    assert summary["class_names"] == ["push", "slip"]
    assert summary["samples"] == {"train": 44, "valid": 4, "test": 12}
    assert "training " in summary["edition"]
    assert "test " in summary["edition"]


def test_the_numbers_are_those_of_a_file(tmp_path):
    """The same spikes, from a file and from Python, give the same run."""
    rng = np.random.default_rng(0)
    spikes, labels = (rng.random((50, 10, 6)) < 0.3).astype(np.uint8), np.arange(50) % 2
    for name, rows in (("train", slice(40)), ("test", slice(40, 50))):
        np.savez(tmp_path / f"{name}.npz", spikes=spikes[rows], labels=labels[rows])
    (tmp_path / "mine.toml").write_text(
        "[data]\nfile = 'train.npz'\ntest_file = 'test.npz'\nrepeat = 1\n[net]\nhidden = [8]\n"
        "[train]\nepochs = 2\ntensorboard = false\n"
    )
    pairs = list(zip(spikes, labels, strict=True))
    from_file = train_run(read_experiment(tmp_path / "mine.toml"), tmp_path / "file", RunOptions())
    from_python = train(dataset_from_torch(pairs[:40], pairs[40:]), tmp_path / "python")
    for key in ("accuracy", "test_loss", "samples_sha256", "theta", "spikes"):
        assert from_python[key] == from_file[key], key


def test_groups_are_held_out_by_name(tmp_path):
    people = [f"person {row // 12}" for row in range(60)]
    data = passed(groups=people)
    left = sorted({people[row] for row in range(60)} - {data.group_labels[int(data.test.groups[0])]})
    summary = train(data, tmp_path / "run", data={"repeat": 1, "validation_groups": left[:1]})
    assert summary["held_out"] == {"groups": left[:1]}


def test_images_take_the_recipe_for_images(tmp_path):
    labels = torch.arange(40) % 2
    values = torch.rand(40, 1, 8, 8) * 0.5 + labels.view(-1, 1, 1, 1) * 0.4
    train_samples, test_samples = Images(values[:30], labels[:30]), Images(values[30:], labels[30:])
    spec = experiment_on(Dataset("dots", "Dots", 2, train_samples, test_samples), {}, "here")
    assert spec.sources["train.lr"].startswith("base/images: ")
    assert "Conv" in spec.net.notation
    summary = train(
        Dataset("dots", "Dots", 2, train_samples, test_samples), tmp_path / "run", net={"hidden": [8], "steps": 10}
    )
    assert summary["data"] == "Dots"


def test_thresholds_without_batch_norm_are_measured_on_the_samples(tmp_path):
    summary = train(passed(), tmp_path / "run", net={"hidden": [8], "dense_norm": False})
    values = tomllib.loads((tmp_path / "run" / "experiment.toml").read_text())
    assert values["net"]["theta"][0]["stop"] == pytest.approx(summary["theta"]["layers.0.lif"], rel=0.1)


def interrupted_after(iterations):
    left = iter([False] * iterations)
    return Listener(interrupted=lambda: next(left, True))


def test_a_run_goes_on_after_an_interruption(tmp_path):
    data = passed()
    whole = train(data, tmp_path / "whole")
    spec = experiment_on(data, {**SMALL, "seed": 0}, "here")
    options = RunOptions(dataset=data, listener=interrupted_after(3))
    assert train_run(spec, tmp_path / "cut", options) is None
    again = train(data, tmp_path / "cut", resume=True)
    rows = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("whole", "cut")]
    numbers = [[{k: v for k, v in json.loads(row).items() if k != "timing"} for row in each] for each in rows]
    assert numbers[0] == numbers[1]
    assert again["accuracy"] == whole["accuracy"]
    with pytest.raises(ValueError, match="holds a run already; add resume=True to go on with it, or choose another f"):
        train(data, tmp_path / "cut")


def test_a_run_that_was_stopped_by_hand_goes_on(tmp_path):
    tables = {**SMALL, "train": {"epochs": 3, "tensorboard": False}}

    def stop(line):
        if line.startswith("epoch   2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bitspike.train_on(passed(), tmp_path / "run", device=torch.device("cpu"), say=stop, **tables)
    again = train(passed(), tmp_path / "run", resume=True, **tables)
    whole = train(passed(), tmp_path / "whole", **tables)
    assert (again["accuracy"], again["test_loss"]) == (whole["accuracy"], whole["test_loss"])


@pytest.mark.parametrize("ended", [True, False])
def test_other_samples_do_not_go_on_with_a_run(tmp_path, ended):
    spec = experiment_on(passed(), {**SMALL, "seed": 0}, "here")
    listener = Listener() if ended else interrupted_after(3)
    train_run(spec, tmp_path / "run", RunOptions(dataset=passed(), listener=listener))
    with pytest.raises(ValueError, match=r"holds another experiment|belongs to another experiment") as caught:
        train(passed(seed=1, bin_ms=passed().train.tally.bin_us / 1000, steps=passed().train.steps), tmp_path / "run",
              resume=True)  # fmt: skip
    assert "samples" in str(caught.value)
    assert "\n" not in str(caught.value)
    if ended:
        assert train(passed(), tmp_path / "run", resume=True)["accuracy"] is not None


GROUPS = [f"person {row // 6}" for row in range(60)]
OTHERS = {
    "other rows": [f"person {row % 10}" for row in range(60)],
    "other names": [f"child {row // 6}" for row in range(60)],
    "none": None,
}


def grouped(groups):
    pairs = recordings()
    return dataset_from_torch(pairs, pairs[:12], name="touch", sensor=(6,), polarity=False, groups=groups)


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_other_groups_do_not_go_on_with_a_run(tmp_path, ended, others):
    """Groups decide which samples are held out: with others, some of them would have been trained on before."""
    options = RunOptions(dataset=grouped(GROUPS), listener=Listener() if ended else interrupted_after(3))
    train_run(experiment_on(grouped(GROUPS), {**SMALL, "seed": 0}, "here"), tmp_path / "run", options)
    with pytest.raises(ValueError, match=r"(holds|belongs to) another experiment: .*samples or groups"):
        train(grouped(others), tmp_path / "run", resume=True)
    assert train(grouped(GROUPS), tmp_path / "run", resume=True)["held_out"]["groups"][0].startswith("person ")


def test_an_evaluation_says_that_the_groups_are_others(tmp_path):
    train(grouped(GROUPS), tmp_path / "run")
    for split, same in (("train", False), ("valid", False), ("test", True)):  # test samples are the same ones
        assert bitspike.evaluate_on(grouped(GROUPS), tmp_path / "run", split=split, device="cpu").warnings == []
        done = bitspike.evaluate_on(grouped(OTHERS["other rows"]), tmp_path / "run", split=split, device="cpu")
        assert (done.warnings == []) == same
        assert all("the training samples or groups passed from Python were changed" in line for line in done.warnings)


def test_groups_count_only_where_samples_are_passed():
    """The runs on files and built-in sets keep the checksums that they had."""
    data, named = grouped(GROUPS), preset("shd/best")
    assert samples_digests(named, data)["train"] == fingerprint(data.train)
    spec = experiment_on(data, SMALL, "here")
    assert samples_digests(spec, data)["train"] != fingerprint(data.train)
    assert samples_digests(spec, grouped(None))["train"] == fingerprint(data.train)


def test_errors_have_the_words_of_python(tmp_path):
    """A person who calls train_on has no --out and no --set."""
    data, few = passed(), {"epochs": 1, "tensorboard": False}
    train(data, tmp_path / "run", train=few)
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "notes").touch()
    train(data, tmp_path / "runs", train=few, trials=1)
    cut = RunOptions(dataset=data, listener=interrupted_after(1))
    train_run(experiment_on(data, {**SMALL, "seed": 0}, "here"), tmp_path / "cut", cut)
    other = passed(seed=1, **bins(data))
    for dataset, out, arguments, says in (
        (data, "run", {"resume": True}, "another experiment: train.epochs was 1, is 2 .*, or repeat the arguments it"),
        (data, "run", {"trials": 2}, "holds a single run; choose another folder for trials$"),
        (data, "runs", {}, "holds trials; give trials=N to go on with them, or choose another folder$"),
        (data, "strange", {}, "is not empty and holds no run; choose another folder$"),
        (data, "strange/notes", {}, "is a file, but a folder is needed; choose another folder$"),
        (other, "cut", {"resume": True}, "put the old data back, or choose another folder$"),
    ):
        with pytest.raises((ValueError, OSError), match=says) as caught:
            train(dataset, tmp_path / out, **arguments)
        assert "--" not in str(caught.value)


@pytest.mark.parametrize("out", [None, 3])
def test_a_run_needs_a_folder(out):
    with pytest.raises(TypeError, match=f"^train_on: out must be the path of a folder, but is {out}$"):
        train(passed(), out)


def test_trials_are_several_runs(tmp_path):
    summary = train(passed(), tmp_path / "runs", trials=2)
    assert summary["seeds"] == [0, 1]
    assert {"accuracies", "best", "mean", "sigma"} <= set(summary)  # as the docstring says
    assert "accuracy" not in summary
    assert (tmp_path / "runs" / "trial-1" / "summary.json").is_file()


def test_a_run_is_evaluated_with_its_samples_only(tmp_path, cli):
    data = passed()
    summary = train(data, tmp_path / "run")
    done = bitspike.evaluate_on(data, tmp_path / "run", device="cpu", baselines=True)
    assert done.result.accuracy == summary["accuracy"]
    assert done.warnings == []
    assert done.baselines is not None
    assert bitspike.load_run(tmp_path / "run").notation == "6-8-2"  # needs no data

    says = "the samples 'touch' were passed from Python, and no file holds them; pass them again: "
    for command in (("evaluate", tmp_path / "run"), ("suggest", tmp_path / "run" / "experiment.toml")):
        status, _, err = cli(*command, "--device", "cpu")
        assert status != 0
        assert says in err
        assert "bitspike.evaluate_on(dataset, RUN)" in err

    other = bitspike.evaluate_on(passed(seed=1, **bins(data)), tmp_path / "run", device="cpu")
    assert "the test samples passed from Python" in other.warnings[0]
    wide = dataset_from_torch(recordings(units=7), sensor=(7,), polarity=False, **bins(data))
    with pytest.raises(ValueError, match=r"have the shape \(7,\), but the run's network was trained on \(6,\)"):
        bitspike.evaluate_on(wide, tmp_path / "run", device="cpu")


def test_a_run_is_evaluated_with_samples_of_its_labels_only(tmp_path):
    """Labels are numbered by those that are there: 2 and 3 alone would be taken for 1 and 2."""

    def of(*labels):
        frames = [(torch.rand(10, 6) < 0.1 * (1 + labels[i % len(labels)])).int() for i in range(30)]
        return dataset_from_torch([(each, labels[i % len(labels)]) for i, each in enumerate(frames)])

    train(of(1, 2, 3), tmp_path / "run")
    says = r"have the labels 2, 3, but those of training 1, 2, 3; .* pass samples of all of these classes"
    with pytest.raises(ValueError, match=says):
        bitspike.evaluate_on(of(2, 3), tmp_path / "run", device="cpu")
    assert bitspike.evaluate_on(of(1, 2, 3), tmp_path / "run", device="cpu").result.accuracy >= 0


def test_a_run_is_evaluated_with_samples_of_its_kind_only(tmp_path):
    labels = torch.arange(40) % 2
    still = Dataset("dots", "Dots", 2, Images(torch.rand(30, 6), labels[:30]), Images(torch.rand(10, 6), labels[30:]))
    train(passed(), tmp_path / "moving")
    train(still, tmp_path / "still", net={"hidden": [8], "steps": 10})
    with pytest.raises(ValueError, match="samples of Dots are images, but the run's network was trained on sequences;"):
        bitspike.evaluate_on(still, tmp_path / "moving", device="cpu")
    with pytest.raises(ValueError, match=r"samples of touch are sequences, but .* was trained on images;"):
        bitspike.evaluate_on(passed(), tmp_path / "still", device="cpu")
    with pytest.raises(ValueError, match="split must be train, valid or test, but is 'all'"):
        bitspike.evaluate_on(still, tmp_path / "still", split="all", device="cpu")
    assert bitspike.evaluate_on(still, tmp_path / "still", split="valid", device="cpu").warnings == []


@pytest.mark.parametrize("binary", [True, False])
def test_only_one_bit_recurrent_weights_had_another_scale(tmp_path, binary):
    train(passed(), tmp_path / "run", net={"hidden": [8], "recurrent": True, "binary": binary})
    path = tmp_path / "run" / "experiment.toml"
    path.write_text(path.read_text().replace("slope = 1.5", "slope = 1.25"))
    with pytest.raises(ValueError, match="put the right file back") as caught:
        bitspike.load_run(tmp_path / "run")
    assert ("recurrent weights behind batch norm had another scale" in str(caught.value)) == binary


def bins(data):
    return {"bin_ms": data.train.tally.bin_us / 1000, "steps": data.train.steps}


def test_samples_cannot_be_passed_to_an_experiment_that_names_its_own(tmp_path):
    np.savez(tmp_path / "own.npz", spikes=np.ones((20, 5, 6), np.uint8), labels=np.arange(20) % 2)
    (tmp_path / "own.toml").write_text("[data]\nfile = 'own.npz'\n[net]\nhidden = [4]\n")
    with pytest.raises(ValueError, match=r"the experiment names its samples, .*own\.npz, so that none can be passed"):
        train_run(read_experiment(tmp_path / "own.toml"), tmp_path / "run", RunOptions(dataset=passed()))


def test_progress_and_mistakes_are_told(tmp_path):
    data = passed()
    few = Dataset("touch", "touch", 3, data.train, data.test)  # no sample of a third class
    lines = []
    summary = bitspike.train_on(few, tmp_path / "run", device="cpu", say=lines.append, **SMALL)
    assert lines[0] == f"touch: 6-8-3, 1-bit weights, seed 0 -> {tmp_path / 'run'}"
    assert sum(line.startswith("epoch ") for line in lines) == 2
    assert any("recipe base/sequences" in line for line in lines)
    assert any("warning: " in line and "class 2" in line for line in lines), lines
    assert any("class 2" in warning for warning in summary["warnings"])


def test_a_remedy_names_options_that_there_are(tmp_path):
    """train_on refuses data.bin_ms and the like: the samples are binned before."""
    data = dataset_from_torch(recordings(), bin_ms=1, steps=5, sensor=(6,), polarity=False)
    lines = []
    bitspike.train_on(data, tmp_path / "run", device="cpu", say=lines.append, **SMALL)
    told = "\n".join(lines)
    assert re.search(r"warning: .*; check time_unit; if it is right, bin_ms = [0-9.]+ would fit\n", told), told
    says = "\ntime_unit and bin_ms are options of bitspike.data.dataset_from_torch and from_torch, not of train_on\n"
    assert says in told, told
    assert "data.bin_ms" not in told
    assert {"time_unit", "bin_ms"} <= set(inspect.signature(bitspike.data.from_torch).parameters)


def test_every_field_that_findings_name_is_an_option():
    told = [f"raise data.{field}" for field in ("bin_ms", "test_steps", "sensor", "clip", "duration_ms")]
    *lines, last = passed_module._as_options([*told, "class data.bins"])
    assert lines == [
        "raise bin_ms",
        "raise steps",
        "raise sensor",
        "raise clip",
        "raise duration_ms",
        "class data.bins",
    ]
    assert last.startswith("bin_ms and steps and sensor and clip and duration_ms are options of ")
    assert list(passed_module._as_options(["one class alone"])) == ["one class alone"]


def test_recordings_cannot_be_heard_by_a_run_on_passed_samples(tmp_path):
    """Its samples have 700 units, but nothing says how they were binned."""
    wide = dataset_from_torch(recordings(), name="touch", sensor=(700,), polarity=False)
    train(wide, tmp_path / "run")
    with pytest.raises(ValueError, match="was trained on 'touch', samples passed from Python, and no file says how"):
        SpeechNetwork(tmp_path / "run")


FRAMES = passed().train
IMAGES = Images(torch.zeros(4, 1, 2, 3), torch.arange(4) % 2)


@pytest.mark.parametrize(
    ("data", "tables", "says"),
    [
        (recordings(), {}, "train_on: the samples must be a bitspike.data.Dataset, but are a list; .*from_torch"),
        (Dataset("a", "A", 2, FRAMES, FRAMES[:0]), {}, "train_on: A has no test samples"),
        (
            Dataset("a", "A", 2, FRAMES, IMAGES),
            {},
            r"training samples of A are sequences of the shape \(6,\), but test samples images of the shape",
        ),
        (Dataset("a", "A", 1, FRAMES, FRAMES), {}, r"labels of A must be 0 to 0, for 1 classes, but .* go over 0\.\.1"),
        (passed(), {"base": "base/images"}, "base = 'base/images' is not for touch, which holds sequences; use 'base"),
        (passed(), {"net": {"hiden": [8]}}, r"train_on: no field is named 'net\.hiden'; did you mean 'net\.hidden'\?"),
        (
            passed(),
            {"data": {"file": "my.npz"}},
            r"train_on: data\.file names samples, but they are passed from Python; leave it out",
        ),
        (passed(), {"data": {"name": "shd"}}, r"train_on: data\.name names samples, but they are passed from Python"),
        (passed(), {"data": {"test_file": "my.npz"}}, r"train_on: data\.test_file names samples, but they are passed"),
        (passed(), {"trials": 2, "seed": 2**32 - 1}, r"^trials=2: seeds must be below 2\*\*32"),
        (passed(), {"data": {"bin_ms": 2}}, r"data\.bin_ms has no meaning for samples that are passed from Python"),
        (passed(), {"data": {"test_share": 0.3}}, r"data\.test_share has no meaning for samples that are passed"),
        (passed(), {"train": 3}, "train_on: train: must be a table, but is 3"),
        (passed(), {"seed": -1}, "train_on: seed: must be greater than or equal to 0, but is -1"),
        (passed(), {"seed": None}, "train_on: seed must be a whole number, but is None; leave it out for 0"),
        (passed(), {"trials": 0}, "train_on: trials must be a whole number of at least 1, but is 0; leave it out"),
        (passed(), {"trials": -1}, "train_on: trials must be a whole number of at least 1, but is -1;"),
        (passed(), {"trials": 2.5}, r"train_on: trials must be a whole number of at least 1, but is 2\.5;"),
        (passed(), {"trials": True}, "train_on: trials must be a whole number of at least 1, but is True;"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_line(tmp_path, data, tables, says):
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        bitspike.train_on(data, tmp_path / "run", device="cpu", say=None, **tables)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("cuda", "device='cuda': PyTorch sees no GPU here; use device='cpu', or install a CUDA build of torch"),
        ("gpu", "device must be auto, cpu, cuda or cuda:N, such as cuda:0, but is 'gpu'"),
    ],
)
def test_a_wrong_device_is_told_as_an_argument(device, says, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = passed()
    with pytest.raises(ValueError, match=r"^train_on: ") as caught:
        bitspike.train_on(data, tmp_path / "run", device=device, say=None, **SMALL)
    assert str(caught.value) == f"train_on: {says}"
    with pytest.raises(ValueError, match=r"^evaluate_on: ") as caught:
        bitspike.evaluate_on(data, tmp_path / "run", device=device)
    assert str(caught.value) == f"evaluate_on: {says}"


def test_a_file_is_not_a_dataset(tmp_path):
    with pytest.raises(TypeError, match=r"^train_on: .* but are a str; bitspike\.data\.load\(FILE\) reads one$"):
        bitspike.train_on("mine.toml", tmp_path / "run")
