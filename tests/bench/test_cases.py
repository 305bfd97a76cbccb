"""Benchmarks against other libraries: what is counted and timed is what is said, on cases small enough for a CPU."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from bitspike.bench import cases as cases_module
from bitspike.bench import measure, peers
from bitspike.bench import problem as problem_module
from bitspike.bench.cases import CASES, ON_CPU, ON_GPU, Case, choose, growth
from bitspike.bench.contender import using
from bitspike.bench.floor import Ceilings, Work, count, measure_ceilings
from bitspike.bench.measure import Plan, fastest, run
from bitspike.bench.ours import ours, samples_of
from bitspike.bench.picture import draw
from bitspike.bench.problem import prepare, synthetic
from bitspike.bench.show import number, show
from bitspike.experiments.schema import with_values
from helpers.bench import CPU, TINY, by_name, tiny
from helpers.peers import one_thread


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(autouse=True, scope="module")
def _known_ceilings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "measure_ceilings", lambda device, before=None: Ceilings(2e11, 3e10))
        yield


# Cases


def test_the_cases_are_those_of_the_paper():
    for name in ("fashion", "dvs128", "shd"):
        problem = prepare(tiny(name, notation=CASES[name].notation, input_shape=CASES[name].input_shape), CPU)
        assert problem.experiment.net.notation == CASES[name].notation
        assert problem.experiment.train.batch == 2
        assert len(problem.recipe.schedules) == len(CASES[name].layers())
    fashion, shd = (prepare(tiny(name), CPU).recipe for name in ("fashion", "shd"))
    assert (fashion.norm, fashion.optimizer, fashion.dropouts) == (True, "sgd", (0, 0, 0.648))
    assert (shd.norm, shd.optimizer, shd.dropouts) == (False, "adam", (0.186, 0.0176))
    assert (shd.grad_clip, shd.weight_clip, fashion.grad_clip) == (1.0, 1.0, None)


def test_neuron_steps_count_every_layer():
    assert CASES["fashion"].neurons() == 16 * 12 * 12 + 64 * 4 * 4 + 10
    assert CASES["shd"].neuron_steps() == (3000 + 20) * 32 * 333


@pytest.mark.parametrize("notation", ["4Conv3p1-256Dense10", "4Conv3s2-36Dense10", "4Conv3-AP2s1-100Dense10"])
def test_what_peers_cannot_build_is_refused(notation):
    with pytest.raises(ValueError, match=r"bench: .* has a padding or a stride, which the peers are built without"):
        replace(CASES["fashion"], notation=notation, input_shape=(1, 8, 8)).layers()


def test_an_optimizer_that_peers_do_not_have_is_refused(monkeypatch):
    adamw = with_values(problem_module.preset("fashion/annealed"), ["train.optimizer=adamw"])
    monkeypatch.setattr(problem_module, "preset", lambda name: adamw)
    with pytest.raises(ValueError, match=r"bench: peers train with 'adam' or 'sgd', but .* train.optimizer = 'adamw'"):
        prepare(tiny("fashion"), CPU)


def test_without_names_the_device_decides():
    assert [case.name for case in choose([], "cuda")] == list(ON_GPU)
    assert [case.name for case in choose([], "cpu")] == list(ON_CPU)
    assert [case.name for case in choose(["shd", "shd", "dense-T50"], "cpu")] == ["shd", "dense-T50"]


def test_an_unknown_case_names_the_known_ones():
    known = "no case is named 'shdd'; known: fashion, dvs128, dvs128-16, shd, layer16k, layer2k, growth"
    with pytest.raises(ValueError, match=known):
        choose(["shdd"], "cpu")


def test_growth_changes_one_thing_at_a_time():
    groups: dict[str, list[Case]] = {}
    for case in choose(["growth"], "cpu"):
        groups.setdefault(case.group, []).append(case)
    assert list(groups) == [f"{kind}, {along}" for kind in ("dense", "conv") for along in ("T", "width", "batch")]
    for group, members in groups.items():
        along = group.split(", ")[1]
        sizes = [case.grown_to() for case in members]
        assert sizes == sorted(set(sizes))
        assert len({(case.steps if along != "T" else 0) for case in members}) == 1
        assert len({(case.batch if along != "batch" else 0) for case in members}) == 1
        assert len({case.notation for case in members}) == (len(members) if along == "width" else 1)
    assert [case.steps for case in groups["dense, T"]] == [50, 100, 200, 400, 800, 1600, 3200]


@by_name
def test_synthetic_data_is_as_dense_as_said(case):
    wide = replace(case, batch=200, steps=20)
    values = synthetic(wide, wide.batch, 0, CPU)
    assert values.dtype == torch.uint8
    assert values.count_nonzero() / values.numel() == pytest.approx(case.density, rel=0.1)
    assert values.max() == {"fashion": 255, "layer2k": 1}.get(case.name, 4)
    if case.repeats:
        assert (values > 1).sum() / (values > 0).sum() == pytest.approx(1 / 3, rel=0.05)
    problem = prepare(case, CPU)
    assert problem.x.shape == ((2, *case.input_shape) if case.static else (8, 2, *case.input_shape))
    assert problem.x.is_floating_point() == case.static
    assert problem.x.max() <= 1 or not case.static


# The floor


def test_a_dense_network_counted_by_hand():
    case = tiny("shd", notation="30Dense12Dense4", batch=2, steps=8)
    work = count(case, "adam")
    assert work.operations == 2 * 16 * (2 * 30 * 12 + 3 * 12 * 4)  # the first layer has no gradient of its input
    weights = 31 * 12 + 13 * 4
    assert work.bytes == 2 * 16 * 30 + 3 * 16 * 12 // 8 + 10 * 4 * weights
    assert work.streamed == work.bytes + 8 * 16 * (12 + 4) + 4 * 16 * 12


def test_a_convolution_with_its_pool_is_one_strided_convolution_and_an_image_is_convolved_once():
    case = tiny("fashion")
    operations = 2 * (
        2 * 2 * (16 * 144) * 6**2  # once, of the weights and forward only
        + 3 * 16 * (64 * 16) * 16 * 6**2
        + 3 * 16 * 1024 * 10
    )
    assert count(case, "sgd").operations == operations
    assert count(replace(case, steps=16), "sgd").operations < 2 * operations
    moved = count(replace(case, static=False), "sgd").operations - operations
    assert moved == 2 * 2 * (16 - 2) * (16 * 144) * 6**2


def test_where_zeros_are_skipped_only_what_must_be_done_counts():
    case = tiny("shd", notation="30Dense12Dense4", batch=2, steps=8, density=0.25)
    work = count(case, "adam", skips_zeros=True)
    assert work.operations == 2 * 16 * (2 * 30 * 12 * 0.25 + 12 * 4)  # of the second layer the gradient of its input
    dense = count(case, "adam")
    assert (work.bytes, work.streamed) == (dense.bytes, dense.streamed)
    assert count(replace(case, density=1.0, notation="30Dense12"), "adam", skips_zeros=True).operations == (
        count(replace(case, notation="30Dense12"), "adam").operations
    )


def test_the_floor_of_a_cpu_is_that_of_code_that_skips_zeros(result):
    case = tiny("shd")
    assert result["cases"]["shd"]["floor"]["operations"] == count(case, "adam", skips_zeros=True).operations
    assert result["cases"]["shd"]["floor"]["operations"] < count(case, "adam").operations


def test_the_floor_is_the_slower_of_products_and_memory():
    ceilings = Ceilings(operations=1e12, bytes=1e9)
    assert ceilings.milliseconds(Work(int(2e9), 1000, 5_000_000)) == pytest.approx(2)
    assert ceilings.milliseconds(Work(int(2e9), 1000, 5_000_000), streamed=True) == pytest.approx(5)


def test_ceilings_keep_the_best_seen():
    found = measure_ceilings(CPU, Ceilings(1e30, 1.0))
    assert found.operations == 1e30
    assert 1e8 < found.bytes < 1e13


# Our own step


@pytest.mark.parametrize("case", TINY[:3], ids=lambda case: case.name)
def test_our_step_is_the_trainers(case):
    contender = ours(prepare(case, CPU))
    trainer = contender.step.trainer
    before = [p.detach().clone() for p in trainer.net.parameters()]
    first = trainer.thetas()
    with using(contender.arithmetic, CPU):
        for _ in range(3):
            contender.step()
    assert trainer.progress.step == 3
    assert all(b > a for a, b in zip(first, trainer.thetas(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.net.parameters(), strict=True))


def test_our_steps_go_on_where_an_epoch_ends():
    contender = ours(prepare(tiny("shd"), CPU))
    contender.step()
    trainer = contender.step.trainer
    trainer.progress.iteration = trainer.work.count
    contender.step()
    assert trainer.progress.iteration == 1
    assert trainer.progress.step == 2


def test_our_single_layer_takes_counts_and_leaves_gradients():
    problem = prepare(tiny("layer2k"), CPU)
    loss = ours(problem).step()
    assert problem.x.dtype == torch.uint8
    assert 0 < loss.item() <= 8 * 2 * 24
    assert loss.item() == loss.item() // 1


def test_training_samples_are_several_batches_and_one_for_growth():
    assert len(samples_of(prepare(tiny("shd"), CPU))) == 8
    assert len(samples_of(prepare(replace(growth()[0], steps=4, batch=2), CPU))) == 2


# The whole


def measured(*cases: Case, against=("snntorch",), **options):
    pytest.importorskip("snntorch")
    return run(Plan(cases, against, CPU, 0.0, **options))


@pytest.fixture(scope="module")
def result():
    return measured(tiny("shd"), replace(growth()[0], steps=4, batch=2), replace(growth()[1], steps=6, batch=2))


def test_the_result_is_plain_data(result):
    assert json.loads(json.dumps(result)) == result
    assert result["format"] == 1
    assert set(result["versions"]) >= {"bitspike", "torch", "python", "machine"}
    case = result["cases"]["shd"]
    assert set(case) >= {"title", "notation", "batch", "steps", "work", "neuron_steps", "floor", "rows"}
    assert set(case["floor"]) == {"operations", "bytes", "bytes_streamed", "ms", "ms_streamed"}
    assert list(case["rows"]) == ["bitspike", "snntorch"]
    for row in case["rows"].values():
        assert {"library", "version", "setting", "differs", "ms", "rounds", "peak_mb", "times_ours", "gpu"} <= set(row)
        assert row["ms"]["low"] <= row["ms"]["median"] <= row["ms"]["high"]
        assert row["rounds"] >= 3
        expected = 1e6 * row["ms"]["median"] / case["neuron_steps"]
        assert row["ns_per_neuron_step"] == pytest.approx(expected, rel=1e-3)
    assert case["rows"]["bitspike"]["times_ours"]["median"] == 1
    assert case["floor"]["ms"] == pytest.approx(
        1e3
        * max(
            case["floor"]["operations"] / result["ceilings"]["operations_per_s"],
            case["floor"]["bytes"] / result["ceilings"]["bytes_per_s"],
        ),
        rel=1e-3,
    )


def test_one_that_fails_is_written_down_and_the_others_go_on(monkeypatch):
    def broken(problem):
        raise RuntimeError("no kernel\nfor this device")

    told = []
    saved = []
    known = {"snntorch": (peers.Variant("snntorch", broken),)}
    monkeypatch.setattr(measure, "variants", lambda name: known[name])
    result = measured(
        tiny("shd"),
        against=("snntorch", "norse"),
        failed=lambda name, error: told.append(name),
        done=lambda latest: saved.append(list(latest["cases"])),
    )
    rows = result["cases"]["shd"]["rows"]
    assert rows["snntorch"] == {"error": "RuntimeError: no kernel for this device"}
    assert rows["norse"]["error"].startswith("KeyError")
    assert "ms" in rows["bitspike"]
    assert sorted(told) == ["norse", "snntorch"]
    assert saved == [["shd"]]


def test_after_the_deadline_nobody_starts():
    rows = measured(tiny("shd"), deadline=0.0)["cases"]["shd"]["rows"]
    assert rows == {name: {"error": "no time was left"} for name in ("bitspike", "snntorch")}


def test_the_fastest_of_a_library():
    rows = {
        "bitspike": {"library": "bitspike", "ms": {"median": 1}},
        "sj": {"library": "spikingjelly", "ms": {"median": 9}},
        "sj-folded": {"library": "spikingjelly", "ms": {"median": 5}},
        "sj-bf16": {"error": "no"},
    }
    assert fastest(rows, "spikingjelly") == "sj-folded"
    assert fastest(rows, "norse") is None


def test_tables_name_every_row(result):
    console = Console(width=120, record=True, file=io.StringIO())
    broken = {"cases": {**result["cases"], "dvs128": {**result["cases"]["shd"], "rows": {"spyx": {"error": "X: y"}}}}}
    show(broken, console)
    text = console.export_text()
    for word in (
        "shd: SHD",
        "bitspike",
        "snntorch 1.0.0",
        "differs:",
        "floor",
        "failed",
        "spyx: X: y",
        "growth: dense, T",
    ):
        assert word in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (0.012345, "0.0123"), (12.34, "12.3"), (264.4, "264"), (56789.0, "56,800")],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_pictures_are_drawn_of_what_there_is(result, tmp_path):
    assert [path.name for path in draw(result, tmp_path)] == ["bench.png", "growth.png"]
    assert (tmp_path / "bench.png").read_bytes()[:4] == b"\x89PNG"
    only = {**result, "cases": {"shd": result["cases"]["shd"]}}
    assert [path.name for path in draw(only, tmp_path / "more")] == ["bench.png"]


def test_the_command_line_measures_prints_and_saves(cli, tmp_path, monkeypatch):
    pytest.importorskip("snntorch")
    monkeypatch.setitem(cases_module.CASES, "shd", tiny("shd"))
    status, out, _ = cli(
        "bench", "shd", "--against", "snntorch", "--device", "cpu", "--seconds", "0", "--json", "--out", tmp_path
    )
    assert status == 0
    printed = json.loads(out)
    assert printed == json.loads((tmp_path / "bench.json").read_text())
    assert list(printed["cases"]["shd"]["rows"]) == ["bitspike", "snntorch"]
    assert (tmp_path / "bench.png").is_file()
    status, out, _ = cli("bench", "shd", "--against", "none", "--device", "cpu", "--seconds", "0")
    assert (status, "snntorch" in out) == (0, False)
    assert "bitspike" in out


@pytest.mark.parametrize(("against", "said"), [("all", True), ("none", False)])
def test_peers_that_are_not_installed_are_named(against, said, cli, monkeypatch):
    monkeypatch.setitem(cases_module.CASES, "shd", tiny("shd"))
    monkeypatch.setattr(peers, "installed", lambda name: False)
    status, out, _ = cli("bench", "shd", "--against", against, "--device", "cpu", "--seconds", "0")
    assert status == 0
    lines = [line for line in out.splitlines() if line.startswith("not installed, so not measured: ")]
    assert len(lines) == said
    assert all(how in lines[0] for how in peers.KNOWN.values() if said)
    status, out, _ = cli("bench", "shd", "--against", against, "--device", "cpu", "--seconds", "0", "--json")
    assert json.loads(out)["not_installed"] == (peers.KNOWN if said else {})


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_no_number_is_cut_on_a_narrow_terminal(result, columns):
    row = {
        **result["cases"]["shd"]["rows"]["snntorch"],
        "gpu": {"kernels": 11311, "launches": 22681},
        "peak_mb": 5510.0,
    }
    row |= {"ms": {"median": 1234.0, "low": 1111.0, "high": 5678.0}, "bytes_per_neuron_step": 57.4}
    cases = {
        name: {**case, "floor": {**case["floor"], "ms": 1.0}, "rows": {"spikingjelly-folded-hoisted": row}}
        for name, case in result["cases"].items()
    }
    console = Console(width=columns, record=True, file=io.StringIO())
    show({"cases": cases}, console)
    text = console.export_text()
    assert "…" not in text
    assert all(part in text for part in ("1,110-5,680", "11,300 (22681)", "5,510", "1,230", "57.4"))


def test_the_command_lines_errors_are_one_line(cli, monkeypatch):
    status, _, err = cli("bench", "shdd")
    assert (status, err.count("\n")) == (1, 1)
    assert "known: fashion" in err
    monkeypatch.setattr(peers, "installed", lambda name: False)
    status, _, err = cli("bench", "shd", "--against", "spikingjelly")
    assert (status, err.count("\n")) == (1, 1)
    assert "spikingjelly is not installed; run: pip install --no-deps spikingjelly==2.0.0" in err


def test_no_peer_is_loaded_unasked():
    names = ("snntorch", "spikingjelly", "norse", "spyx", "jax", "matplotlib")
    code = (
        f"import sys, bitspike.bench.measure, bitspike.bench.picture; print([n for n in {names!r} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
