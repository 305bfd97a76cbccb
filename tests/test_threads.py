"""How the command line's threads wait, and how many a network gets."""

import os
import subprocess
import sys

import pytest
import torch

from bitspike.experiments.assembly import iteration_work
from bitspike.experiments.presets import preset
from bitspike.nn.notation import count_neurons, parse
from bitspike.train.numerics import SMALL, threads_for
from data_files import fake_mnist

SET = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")


def environment(**more):
    return {key: value for key, value in os.environ.items() if key not in SET} | more


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PyTorch does not bring libgomp")
@pytest.mark.parametrize(
    ("given", "spins"), [({}, "'1000'"), ({"GOMP_SPINCOUNT": "7"}, "'7'"), ({"OMP_WAIT_POLICY": "PASSIVE"}, "'0'")]
)
def test_openmp_is_told_before_it_is_loaded(tmp_path, given, spins):
    command = ["train", "coding/annealed", "--epochs", "1", "--device", "cpu", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "bitspike", *command],
        env=environment(OMP_DISPLAY_ENV="VERBOSE", **given),
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"GOMP_SPINCOUNT = {spins}" in done.stderr


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
