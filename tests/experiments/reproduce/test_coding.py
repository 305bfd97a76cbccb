"""The temporal coding task on few iterations: its mathematics, its files, its command."""

import base64
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bitspike import LIF, BinaryLinear, ThresholdAnnealing, trace_loss
from bitspike.analysis import traces as pictures
from bitspike.cli import app, main
from bitspike.data.coding import INPUTS, STEPS, target_trace
from bitspike.experiments.reproduce.coding.cases import CASES, DEFAULT, LEARNING_RATE, Case, select_cases
from bitspike.experiments.reproduce.coding.claims import claims
from bitspike.experiments.reproduce.coding.network import HIDDEN, SLOPE, SeedBatch
from bitspike.experiments.reproduce.coding.outcome import CROSSING_TIME, describe
from bitspike.experiments.reproduce.coding.report import reproduce_coding
from bitspike.experiments.reproduce.coding.training import MOMENTUM, History, train_case
from bitspike.schedules import Constant, Relax

ANNEALED = CASES["annealed"]


def test_target_rises_straight_to_ten_percent_above_theta_at_75_then_is_zero():
    target = target_trace(50.0)
    assert target.shape == (100,)
    assert target[0] == 0
    assert target[75] == pytest.approx(55.0)
    assert target[30] == pytest.approx(22.0)
    assert torch.equal(target[76:], torch.zeros(24))


def test_the_target_crosses_theta_at_69():
    target = target_trace(50.0)
    assert CROSSING_TIME == 69
    assert target[68] < 50.0 <= target[69]


def test_target_is_snntorchs_but_for_its_overshoot():
    spikegen = pytest.importorskip("snntorch.spikegen")
    theirs = spikegen.targets_latency(
        torch.zeros(1), num_classes=1, first_spike_time=75, on_target=55.0, num_steps=100, interpolate=True
    )
    assert torch.allclose(target_trace(50.0), theirs.flatten(), atol=1e-4)


def test_the_papers_numbers():
    """The appendix' table of the temporal coding task."""
    assert (INPUTS, HIDDEN, STEPS, SLOPE) == (100, 1000, 100, 5.0)
    assert (LEARNING_RATE, MOMENTUM) == (1e-3, 0.9)
    assert (CASES["theta1"].beta, CASES["theta1"].theta) == (0.15, Constant(1.0))
    assert (CASES["theta50"].beta, CASES["theta50"].theta) == (0.15, Constant(50.0))
    assert (ANNEALED.beta, ANNEALED.theta) == (0.15, Relax(5.0, 50.0, 5e-3))
    assert (CASES["float32-table"].beta, CASES["float32-table"].theta) == (0.6, Constant(2.0))
    assert not CASES["float32"].binary
    assert {c.surrogate_center for c in CASES.values()} == {"initial", "current"}


def test_a_seed_does_not_depend_on_its_company():
    together = train_case(ANNEALED, [3, 4], iterations=4)
    alone = train_case(ANNEALED, [4], iterations=4)
    assert torch.equal(together.spikes[..., 1], alone.spikes[..., 0])
    assert torch.equal(together.membrane[..., 1], alone.membrane[..., 0])


def test_two_runs_are_equal():
    first, second = (train_case(CASES["theta1"], [0], iterations=5) for _ in range(2))
    assert torch.equal(first.membrane, second.membrane)
    assert torch.equal(first.loss, second.loss)


@pytest.mark.parametrize("name", ["float32", "annealed", "annealed-released"])
@pytest.mark.parametrize("loss", ["mean", "sum"])
def test_batched_seeds_train_like_a_network_of_ordinary_layers(name, loss):
    case = replace(CASES[name], loss=loss)
    history = train_case(case, [7], iterations=5)
    batch = SeedBatch(case, [7])
    layers = [BinaryLinear(100, 1000, binary=case.binary), BinaryLinear(1000, 1, binary=case.binary)]
    with torch.no_grad():
        for layer, w, b in zip(layers, (batch.weight1, batch.weight2), (batch.bias1, batch.bias2), strict=True):
            layer.weight.copy_(w[0])
            layer.bias.copy_(b[0])
    kinds = {"slope": 5.0, "surrogate_center": case.surrogate_center}
    net = torch.nn.ModuleList([layers[0], LIF(case.beta, **kinds), layers[1], LIF(case.beta, **kinds)])
    annealing = ThresholdAnnealing(net, case.theta)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    target = target_trace(case.theta.final)
    for k in range(5):
        hidden = net[1](net[0](batch.inputs)).spikes
        out = net[3](net[2](hidden))
        error = trace_loss(out.membrane, target) / (1 if loss == "sum" else 100)
        assert torch.equal(out.spikes[:, 0, 0], history.spikes[k, :, 0])
        assert error.item() == pytest.approx(history.loss[k, 0].item(), rel=1e-5)
        assert (hidden.amax(0) == 0).float().mean().item() == pytest.approx(history.dead[k, 0].item())
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        annealing.step()


def test_the_threshold_of_iteration_k_is_the_schedules():
    history = train_case(ANNEALED, [0], iterations=6)
    expected = [50 - 45 * (1 - 5e-3) ** k for k in range(6)]
    assert history.theta.tolist() == pytest.approx(expected, rel=1e-6)


def test_half_of_the_inputs_are_spikes():
    inputs = SeedBatch(ANNEALED, range(3)).inputs
    assert inputs.shape == (100, 3, 100)
    assert set(inputs.unique().tolist()) == {0.0, 1.0}
    assert inputs.mean().item() == pytest.approx(0.5, abs=0.01)


def history_with(spikes: torch.Tensor, case: Case = ANNEALED) -> History:
    iterations, _, seeds = spikes.shape
    flat = torch.zeros(iterations, seeds)
    return History(
        case,
        tuple(range(seeds)),
        target_trace(50.0),
        torch.zeros_like(spikes),
        spikes,
        flat,
        flat + 1,
        flat[:, 0] + 50,
    )


def test_claims_follow_from_the_spikes():
    silent = torch.zeros(500, 100, 2)
    firing = silent.clone()
    firing[:, 74] = 1
    by = {
        (c["case"], c["claim"]): c["holds"]
        for c in claims(
            {"theta50": history_with(silent), "annealed": history_with(firing), "theta1": history_with(firing)}
        )
    }
    assert by["theta50", "theta = 50 is silent"]
    assert by["annealed", "annealed: fires at the target at iteration 400"]
    assert by["annealed", "annealed: stays active to the end"]
    assert not by["theta1", "theta = 1 is unstable"]
    opposite = {
        (c["case"], c["claim"]): c["holds"]
        for c in claims(
            {"theta50": history_with(firing), "annealed": history_with(silent), "theta1": history_with(silent + 1)}
        )
    }
    assert opposite == {claim: not held for claim, held in by.items()}


def test_description_measures_the_loss_in_units_of_silence():
    row = describe(history_with(torch.zeros(5, 100, 2)))
    assert row["final_loss_over_silence"] == 1.0
    assert row["final_loss_mean"] == pytest.approx(sum((55 * t / 75) ** 2 for t in range(76)), rel=1e-5)
    assert row["active"] == 0
    assert row["hidden_dead"] == 1.0


def test_default_cases_hold_the_papers_four_both_surrogates_and_a_control():
    assert {"float32", "theta1", "theta50", "annealed", "annealed-released"} <= set(DEFAULT)
    assert [c.loss for c in select_cases(None, "sum")] == ["sum"] * len(DEFAULT)


def test_reproduce_writes_everything(tmp_path):
    summary = reproduce_coding(tmp_path / "out", seeds=2, iterations=3, cases=["theta50", "annealed"])
    files = sorted(f.name for f in (tmp_path / "out").iterdir())
    assert files == ["coding.gif", "coding.html", "coding.png", "summary.json"]
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    assert summary["seeds"] == [0, 1]
    assert set(summary["cases"]) == {"theta50", "annealed"}
    assert summary["versions"]["torch"] == torch.__version__
    image = pytest.importorskip("PIL.Image")
    with image.open(tmp_path / "out" / "coding.gif") as gif:
        assert gif.n_frames == 3
    with image.open(tmp_path / "out" / "coding.png") as png:
        assert min(png.size) > 400


def test_page_is_self_contained_and_cannot_be_broken_out_of(tmp_path):
    k, t, s = 4, 100, 2
    trace = pictures.Traces(
        "x",
        "</script><b>title",
        "note",
        target_trace(1.0),
        torch.linspace(-1, 1, k * t * s).view(k, t, s),
        torch.zeros(k, t, s),
        torch.ones(k),
    )
    page = pictures.write_page([trace], tmp_path / "page.html", heading="<h>").read_text()
    assert "</script><b>" not in page
    assert "http:" not in page
    assert "https:" not in page
    start = page.index('id="data">') + len('id="data">')
    data = json.loads(page[start : page.index("</script>", start)])
    assert data["panels"][0]["title"] == "</script><b>title"
    assert data["panels"][0]["iterations"] == [0, 3]


def test_the_page_fits_a_phone():
    """Nothing has a width in pixels that a narrow window could not take back."""
    page = Path(pictures.__file__).with_name("traces.html").read_text(encoding="utf-8")
    style = page[page.index("<style>") : page.index("</style>")]
    assert 'name="viewport" content="width=device-width' in page
    assert "nowrap" not in style
    asked = re.findall(r"(?:minmax\(|min-width: |[{;] *width: )[^;,)]*", style)
    assert asked
    assert all("px" not in rule or "min(" in rule for rule in asked), asked


def test_spikes_travel_as_bits_the_first_lowest():
    assert base64.b64decode(pictures._packed(torch.tensor([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]))) == bytes([0b1001, 0b10])


def test_frames_run_from_first_to_last_and_get_sparser():
    frames = pictures.frame_iterations(1000, 60)
    assert frames[0] == 0
    assert frames[-1] == 999
    assert len(frames) <= 60
    assert frames[1] - frames[0] < frames[-1] - frames[-2]
    assert pictures.frame_iterations(5, 60) == [0, 1, 2, 3, 4]


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    target = tmp_path / "file.txt"
    target.write_text("old")

    def fail(to):
        to.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        pictures.write_atomically(target, fail)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


SMALL = ["reproduce", "coding", "--seeds", "1", "--iterations", "2", "--case", "theta50", "--no-animation"]


def test_the_command_prints_tables_and_where_the_files_are(tmp_path):
    out = tmp_path / "out"
    result = run(*SMALL, "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "theta50" in result.output
    assert "summary.json" in result.output.replace("\n", "")
    assert not (out / "coding.gif").exists()


def test_json_output_is_the_summary_and_nothing_else(tmp_path):
    result = run(*SMALL, "--out", str(tmp_path), "--json")
    assert json.loads(result.stdout) == json.loads((tmp_path / "summary.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reproduce", "coding", "--case", "theta51"], "no case is named 'theta51'; known: float32, theta1"),
        (["reproduce", "coding", "--out", "FILE"], "FILE"),
    ],
)
def test_mistakes_end_in_one_line_and_a_status(arguments, says, tmp_path, monkeypatch, capsys):
    (tmp_path / "FILE").write_text("a file, not a folder")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bitspike", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    captured = capsys.readouterr().err.strip().splitlines()[-1]
    assert captured.startswith("bitspike: ")
    assert says in captured


def test_unknown_reproductions_and_bad_numbers_are_refused():
    assert run("reproduce", "everything").exit_code == 2
    assert run("reproduce", "coding", "--seeds", "0").exit_code == 2
    assert "reproduce" in run("--help").output
    assert run("--version").output.startswith("bitspike 0.")


def test_losses_are_finite_from_the_first_iteration():
    history = train_case(CASES["float32"], [0], iterations=3)
    assert all(math.isfinite(v) for v in history.loss.flatten().tolist())


def test_a_missing_matplotlib_is_said_before_anything_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'bitspike\[report\]'"):
        reproduce_coding(tmp_path / "out", seeds=1, iterations=2)
    assert not (tmp_path / "out").exists()
