"""How the command line's threads wait, and how many a network gets."""

import os
import subprocess
import sys

import pytest
import torch

from bitspike.cli import process
from bitspike.experiments.assembly import iteration_work
from bitspike.experiments.presets import preset
from bitspike.nn.notation import count_neurons, parse
from bitspike.train.numerics import SMALL, threads_for
from helpers.files import fake_mnist

SET = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")


def environment(**more):
    return {key: value for key, value in os.environ.items() if key not in SET} | more


def stat(folder, *lines):
    """/proc/stat as it reads one time after the other: user nice system idle iowait irq softirq steal guest."""
    path = folder / "stat"

    class Read:
        left = iter(lines)

        def read_text(self, encoding):
            return f"cpu  {next(self.left)} 0 0\ncpu0 1 2 3\n"

        def __str__(self):
            return str(path)

    return Read()


@pytest.mark.parametrize(
    ("ticks", "busy"),
    [
        (("100 0 0 900 0 0 0 0", "100 0 0 920 0 0 0 0"), False),
        (("100 0 0 900 0 0 0 0", "100 0 0 910 10 0 0 0"), False),  # waiting for a disk is idle
        (("100 0 0 900 0 0 0 0", "110 0 0 910 0 0 0 0"), True),  # one of two processors
        (("100 0 0 900 0 0 0 0", "102 0 0 918 0 0 0 0"), False),  # a tenth of them
        (("100 0 0 900 0 0 0 0", "100 0 0 904 0 0 0 16"), True),  # another machine on the same hardware
    ],
)
def test_a_machine_is_shared_if_others_use_its_processors(tmp_path, monkeypatch, ticks, busy):
    monkeypatch.setattr(process, "GLANCE", 0.0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    assert process.shared(stat(tmp_path, *ticks)) == busy


def test_where_nobody_can_tell_nothing_is_set(tmp_path):
    assert not process.shared(tmp_path / "none")
    (tmp_path / "odd").write_text("nothing of the kind\n")
    assert not process.shared(tmp_path / "odd")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PyTorch does not bring libgomp")
@pytest.mark.parametrize(
    ("given", "busy", "policy"),
    [
        ({}, True, "PASSIVE"),
        pytest.param({"OMP_WAIT_POLICY": "ACTIVE"}, True, "ACTIVE", marks=pytest.mark.slow),
        pytest.param({"OMP_WAIT_POLICY": "PASSIVE"}, False, "PASSIVE", marks=pytest.mark.slow),
    ],
)
def test_openmp_is_told_before_it_is_loaded(tmp_path, given, busy, policy):
    command = ["bitspike", "train", "coding/annealed", "--epochs", "1", "--device", "cpu", "--out", "run"]
    script = (
        f"import sys; from bitspike.cli import main, process; process.shared = lambda: {busy}\n"
        f"sys.argv = {command!r}; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(OMP_DISPLAY_ENV="TRUE", **given),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert f"OMP_WAIT_POLICY = '{policy}'" in done.stderr


def test_a_preset_that_is_none_is_told_without_torch(tmp_path):
    script = (
        "import sys; from bitspike.cli import main; sys.argv = ['bitspike', 'train', 'mnist/annealt']\n"
        "try: main()\nfinally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "did you mean 'mnist/annealed'" in done.stderr
    assert "Traceback" not in done.stderr


def test_small_networks_get_one_thread(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(SMALL - 1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with threads_for(SMALL):
            assert torch.get_num_threads() == 2
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        with threads_for(1):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_neurons_are_counted_layer_by_layer():
    layers, _ = parse("16Conv5-AP2-64Conv5-AP2-1024Dense10", (1, 28, 28))
    assert count_neurons(layers) == 16 * 12 * 12 + 64 * 4 * 4 + 10
    assert count_neurons(parse("100-1000-1", None)[0]) == 1001


def test_the_work_of_an_iteration_is_that_of_its_samples(workplace):
    from bitspike.data.datasets import open_dataset

    fake_mnist(workplace.parent / "root", train=40)
    spec = preset("mnist/quick")
    neurons = 16 * 12 * 12 + 64 * 4 * 4 + 10
    assert iteration_work(spec, open_dataset(spec.data)) == 8 * 40 * neurons  # 40 samples are fewer than a batch
    coding = preset("coding/annealed")
    assert iteration_work(coding, open_dataset(coding.data)) == 100 * 1 * 1001 < SMALL
