"""benchmarks/released_step.py on few steps and random images: our training step is the released code's, and a step
that is not is noticed."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bitspike import LIFOutput
from bitspike.data.samples import Images
from bitspike.experiments.presets import preset

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TASKS = ("fashion", "mnist")


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("snntorch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("released_step")


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def images(count: int = 12) -> Images:
    random = torch.Generator().manual_seed(3)
    values = torch.randint(0, 256, (count, 1, 28, 28), generator=random, dtype=torch.uint8)
    return Images(values, torch.arange(count) % 10)


def short(step: Any, task: str, iterations: int = 2, **options: Any) -> list[dict[str, Any]]:
    usual = {"precision": "float64", "steps": 10, "batch": 2}
    return step.compare(task, images(), iterations=iterations, **usual | options)


@pytest.mark.parametrize(("task", "dropout"), [("fashion", True), ("mnist", True), ("mnist", False)])
def test_in_float64_our_step_is_the_released_codes(step: Any, task: str, dropout: bool) -> None:
    rows = short(step, task, 3, dropout=dropout, steps=36)
    assert len(rows) == 3
    first, second, _ = (sum(counts) for counts in zip(*(row["spikes"] for row in rows), strict=True))
    assert first > 1000  # silence would prove little
    assert second > 5
    verdict = step.judge(rows, "float64")
    assert verdict["beyond_rounding"] == {}
    assert verdict["first_flip"] is None
    assert max(verdict["worst"].values()) < 1e-9
    assert all(row["signs_differing"] == 0 for row in rows)


@pytest.mark.parametrize("task", TASKS)
def test_in_float32_it_is_to_rounding(step: Any, task: str) -> None:
    verdict = step.judge(short(step, task, 1, precision="float32"), "float32")
    assert verdict["beyond_rounding"] == {}


@pytest.mark.parametrize(
    ("task", "change"),
    [
        ("fashion", {"beta": 0.8681}),
        ("fashion", {"slope": 0.156}),
        ("fashion", {"dropout": 0.6481}),
        ("fashion", {"lr": 8.401e-4}),
        ("fashion", {"momentum": 0.8551}),
        ("fashion", {"momentum": None}),
        ("fashion", {"start": (6.9, 10.25, 17.951)}),
        ("fashion", {"rise": (7.1456, 12.8261, 9.936668)}),
        ("mnist", {"rate": (0.0241, 0.119, 0.0011)}),
        ("mnist", {"lr": 9.971e-3}),
        ("mnist", {"momentum": 0.9}),
    ],
)
def test_a_number_that_is_not_theirs_is_noticed(
    step: Any, monkeypatch: pytest.MonkeyPatch, task: str, change: dict[str, Any]
) -> None:
    monkeypatch.setitem(step.RELEASED, task, replace(step.RELEASED[task], **change))
    assert step.judge(short(step, task), "float64")["beyond_rounding"]


@pytest.mark.parametrize(
    "setting", ["net.surrogate_center=initial", "net.norm=shared", "net.clip=0.01", "train.half_period=4000"]
)
def test_a_setting_that_is_not_theirs_is_noticed(step: Any, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    ours = importlib.import_module("released_ours")
    real = ours.with_values
    monkeypatch.setattr(ours, "with_values", lambda spec, settings: real(spec, [*settings, setting]))
    assert step.judge(short(step, "fashion"), "float64")["beyond_rounding"]


@pytest.mark.parametrize("task", TASKS)
def test_the_cosine_is_theirs(step: Any, task: str) -> None:
    assert preset(f"{task}/annealed").train.half_period == importlib.import_module("released_network").HALF_PERIOD


def test_the_wide_surrogate_is_snntorchs(step: Any) -> None:
    network = importlib.import_module("released_network")
    x = torch.cat((torch.randn(500), torch.zeros(1)))
    outputs = []
    for fire in (network.surrogate.fast_sigmoid(0.3), lambda u: network.WideFastSigmoid.apply(u, 0.3)):
        u = x.clone().requires_grad_()
        z = fire(u)
        outputs += [z.detach(), torch.autograd.grad(z, u, torch.arange(501.0))[0]]
    assert torch.equal(outputs[0], outputs[2])
    assert torch.equal(outputs[1], outputs[3])


def outputs_of(*membranes: list[list[float]]) -> list[LIFOutput]:
    """Layers of `[T, 1, N]`, firing from 1 on."""
    return [LIFOutput((u >= 1).float(), u, None) for u in (torch.tensor(m)[:, None] for m in membranes)]


def seen(step: Any, ours: list[LIFOutput], theirs: list[LIFOutput]) -> Any:
    watch = step.Watch(ours, [1.0] * len(ours))
    for t in range(len(ours[0].spikes)):
        for layer, out in enumerate(theirs):
            watch(layer, t, out.spikes[t], out.membrane[t])
    return watch


def test_a_flip_counts_once_and_what_follows_from_it_does_not(step: Any) -> None:
    ours = outputs_of([[0.0, 1.001], [2.0, 0.5], [2.0, 0.5]], [[0.0], [0.0], [0.0]])
    theirs = outputs_of([[0.0, 0.999], [2.0, 1.5], [2.0, 0.5]], [[0.0], [9.0], [9.0]])
    watch = seen(step, ours, theirs)
    assert watch.differing == [2, 2]
    assert watch.first == 1
    assert watch.ties == 0
    assert watch.farthest == pytest.approx(0.001, rel=1e-3)


def test_a_flip_above_comes_before_one_below(step: Any) -> None:
    ours = outputs_of([[0.0], [0.0]], [[3.0], [0.0]])
    theirs = outputs_of([[0.0], [5.0]], [[0.25], [0.0]])
    watch = seen(step, ours, theirs)
    assert watch.first == 2
    assert watch.farthest == 4.0
    assert watch.membrane == 2.75


def test_a_tie_is_told(step: Any) -> None:
    ours = outputs_of([[1.0, 1.0]])
    theirs = [LIFOutput(torch.zeros(1, 1, 2), torch.tensor([[[1.0, 0.75]]]), None)]
    watch = seen(step, ours, theirs)
    assert (watch.first, watch.ties) == (2, 1)


def test_a_flip_far_from_theta_is_beyond_rounding(step: Any) -> None:
    rows = short(step, "mnist")
    rows[1] |= {"spikes_differing": [0, 1, 0], "neurons_flipped_first": 1, "farthest_from_theta": 1e-12, "loss": 0.1}
    verdict = step.judge(rows, "float64")
    assert verdict["first_flip"] == 2
    assert verdict["beyond_rounding"] == {}
    rows[1]["farthest_from_theta"] = 1e-6  # one float32 would allow
    assert step.judge(rows, "float64")["beyond_rounding"] == {"membranes": 2}


def test_the_command_writes_what_it_found(
    step: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = step.compare
    monkeypatch.setattr(step, "compare", lambda *args, **options: real(*args, **options, steps=4))
    monkeypatch.setattr(step, "open_dataset", lambda config, root: type("Data", (), {"train": images()}))
    out = tmp_path / "found.json"
    arguments = ["--tasks", "mnist", "--iterations", "2", "--without-dropout", "1", "--batch", "2", "--out", str(out)]
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["released_step.py", *arguments, "--data-root", str(tmp_path)])
        step.main()
    runs = json.loads(out.read_text())["runs"]
    assert [len(run["iterations"]) for run in runs] == [2, 1, 2, 1]
    assert str(tmp_path) not in out.read_text()
    assert "--out found.json" in runs[0]["command"]
    assert "mnist   float64 dropout on : equal to float64 rounding in all 2 iterations" in capsys.readouterr().out


@pytest.mark.parametrize(("option", "known"), [("--tasks", "fashion, mnist"), ("--precision", "float64, float32")])
def test_a_wrong_name_is_told(step: Any, monkeypatch: pytest.MonkeyPatch, option: str, known: str) -> None:
    monkeypatch.setattr("sys.argv", ["released_step.py", option, "shd"])
    with pytest.raises(SystemExit, match=f"{option} must be of {known}, but has shd"):
        step.main()


def test_without_snntorch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("released_step", "released_network"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "snntorch", None)
    with pytest.raises(SystemExit, match="snntorch is not installed; run: pip install snntorch"):
        importlib.import_module("released_step")


def test_signs_pass_every_gradient(step: Any) -> None:
    sign = importlib.import_module("released_network").Sign
    w = torch.tensor([-2.0, -0.0, 0.0, 0.5], requires_grad=True)
    signs: Tensor = sign.apply(w)
    assert signs.tolist() == [-1, 1, 1, 1]
    assert torch.autograd.grad(signs, w, torch.arange(4.0))[0].tolist() == [0, 1, 2, 3]
