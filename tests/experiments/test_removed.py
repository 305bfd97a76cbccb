"""Fields that were removed: files from before are read if they did not use them, and told clearly if they did."""

from __future__ import annotations

import pytest

from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.presets import preset
from bitspike.experiments.removed import REMOVED
from bitspike.experiments.runs import train_run
from bitspike.experiments.saved import evaluate_run, load_run
from bitspike.experiments.schema import as_toml, read_experiment, with_values
from helpers import runs

OLD_DEFAULTS = "teacher_weight = 0.5\ntemperature = 1.0\nmirror = false\n"


def write(folder, more):
    spec = preset("mnist/best")
    path = folder / "experiment.toml"
    path.write_text(as_toml(spec).replace("[train]\n", f"[train]\n{more}"))
    return spec, path


def test_old_defaults_are_dropped_on_reading(tmp_path):
    spec, path = write(tmp_path, OLD_DEFAULTS)
    assert read_experiment(path) == spec
    path.write_text(path.read_text() + '"train.mirror" = "a note on it"\n')  # in [sources], the last table
    assert read_experiment(path) == spec


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('teacher = "runs/twin"', "train.teacher was removed, but is 'runs/twin': learning from a teacher"),
        ("teacher_weight = 0.9", "train.teacher_weight was removed, but is 0.9: learning from a teacher"),
        ("temperature = 2", "train.temperature was removed, but is 2: learning from a teacher"),
        ("average = 0.9", "train.average was removed, but is 0.9: averaged weights"),
        ("mirror = true", "train.mirror was removed, but is True: mirrored training images"),
        ("mirror = 0", "train.mirror was removed, but is 0: mirrored training images"),
    ],
)
def test_any_other_value_gets_one_clear_line(tmp_path, line, says):
    _, path = write(tmp_path, f"{line}\n")
    with pytest.raises(ValueError, match=r"leave it out") as error:
        read_experiment(path)
    assert str(error.value).startswith(f"{path}: {says}")
    assert "\n" not in str(error.value)
    setting = f"train.{line.replace(' ', '')}"
    with pytest.raises(ValueError, match=r"leave it out") as error:
        with_values(preset("mnist/best"), [setting])
    assert str(error.value).startswith(f"--set {setting}: {says}")


def test_an_old_default_may_still_be_set():
    spec = preset("mnist/best")
    settings = ["train.mirror=false", "train.teacher=none", "train.average=none", "train.temperature=1"]
    assert with_values(spec, settings) == spec


def test_no_field_is_both_there_and_removed():
    train = preset("mnist/best").train
    assert not [key for key in REMOVED if hasattr(train, key.partition(".")[2])]


@pytest.mark.parametrize("settings", [["train.epochs=2"], ["seed=3"], ["train.epochs=2", "net.beta=0.5"]])
def test_a_removed_field_of_a_file_is_the_files_fault(tmp_path, settings):
    _, path = write(tmp_path, "average = 0.9\n")
    with pytest.raises(ValueError, match=r"train.average was removed") as error:
        read_experiment(path, settings)
    assert str(error.value).startswith(f"{path}: ")


def test_an_old_default_hides_no_other_mistake_of_the_file(tmp_path):
    _, path = write(tmp_path, OLD_DEFAULTS)
    path.write_text(path.read_text().replace('schedule = "decay"', 'schedule = "constant"'))
    with pytest.raises(ValueError, match=r"train.warmup belongs to") as error:
        read_experiment(path, ["train.epochs=4"])
    assert str(error.value).startswith(f"{path}: ")


def test_a_run_that_used_a_removed_field_still_loads_and_evaluates(tmp_path):
    """Its network does not depend on it; only training does."""
    spec = read_experiment(runs.write_experiment(tmp_path))
    out = tmp_path / "run"
    train_run(with_values(spec, ["train.epochs=1", "train.tensorboard=false"]), out, RunOptions())
    path = out / "experiment.toml"
    path.write_text(path.read_text().replace("[train]\n", "[train]\naverage = 0.9\nmirror = true\n"))
    with pytest.raises(ValueError, match=r"was removed"):
        read_experiment(path)
    load_run(out)
    assert evaluate_run(out, "test", RunOptions()).warnings == []
