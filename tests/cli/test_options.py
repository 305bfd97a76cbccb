"""The option --device, which several commands have."""

import re

import pytest

from bitspike.experiments.assembly import pick_device


@pytest.fixture
def here(workplace):
    return workplace


@pytest.fixture
def gpus(monkeypatch):
    def seen(count, **environment):
        monkeypatch.setattr("torch.cuda.is_available", lambda: count > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: count)
        monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
        monkeypatch.delenv("LOCAL_RANK", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return seen


@pytest.mark.parametrize(
    ("name", "count", "environment", "chosen"),
    [
        ("auto", 0, {}, "cpu"),
        ("auto", 2, {}, "cuda:0"),
        ("cpu", 2, {}, "cpu"),
        ("cuda", 2, {}, "cuda:0"),
        ("cuda:0", 1, {}, "cuda:0"),
        ("cuda:1", 2, {}, "cuda:1"),
        ("cuda", 2, {"LOCAL_RANK": "1"}, "cuda:1"),
    ],
)
def test_the_device(name, count, environment, chosen, gpus):
    gpus(count, **environment)
    assert str(pick_device(name)) == chosen


@pytest.mark.parametrize(
    ("name", "count", "environment", "says"),
    [
        (
            "cuda:0", 0, {},
            "--device cuda:0: PyTorch sees no GPU here; use --device cpu, or install a CUDA build of torch",
        ),
        ("gpu", 1, {}, "device must be auto, cpu, cuda or cuda:N, such as cuda:0, but is 'gpu'"),
        ("cuda:1", 1, {}, "--device cuda:1: PyTorch sees only cuda:0 here; use --device cuda, or one of these"),
        ("cuda:4", 4, {}, "--device cuda:4: PyTorch sees cuda:0 to cuda:3 here; use --device cuda, or one of these"),
        (
            "cuda:0", 4, {"LOCAL_RANK": "1"},
            "--device cuda:0: under torchrun each process takes a GPU of its own; use --device cuda",
        ),
    ],
)  # fmt: skip
def test_a_wrong_device_says_which_there_are(name, count, environment, says, gpus):
    gpus(count, **environment)
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        pick_device(name)


def test_every_command_takes_a_numbered_gpu(here, cli, gpus):
    gpus(0)  # which our line tells, not a list of choices
    for command in (["train", "coding/fixed"], ["evaluate", "run"], ["reproduce", "static"], ["bench"]):
        status, _, err = cli(*command, "--device", "cuda:0")
        assert (status, err.count("\n")) == (1, 1)
        assert err.startswith("bitspike: --device cuda:0: PyTorch sees no GPU here")


@pytest.mark.parametrize("name", ["gpu", "cuda0", "cuda:", "cuda:-1", "cuda:\u0661", "cpu:0", "CUDA", "", "\x1b[31m"])
def test_no_device_at_all_is_wrong_usage(name, here, cli):
    status, _, err = cli("evaluate", "run", "--device", name)
    assert status == 2
    told = " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╰─╮╯]", "", err).split())
    assert f"must be auto, cpu, cuda or cuda:N, such as cuda:0, but is {name!r}" in told
