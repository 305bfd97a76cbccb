"""benchmarks/annealing.py on the CPU, on drawn images: cells, thresholds in units of the drive, rows, figure."""

import json
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from bitspike.data.samples import Dataset, Images

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    """The scripts, with small networks and drawn images in place of FashionMNIST."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import annealing
    import annealing_cells
    import annealing_figure

    drawn = Images(torch.randint(0, 256, (32, 1, 28, 28), dtype=torch.uint8), torch.arange(32) % 10)
    monkeypatch.setattr(annealing_cells, "data", lambda *_: Dataset("drawn", "drawn", 10, drawn, drawn))
    monkeypatch.setattr(annealing_cells, "NETWORKS", {2: "2Conv5-AP4-72Dense10"})
    annealing_cells.drives.cache_clear()
    yield annealing, annealing_cells, annealing_figure
    annealing_cells.drives.cache_clear()
    for name in ("annealing", "annealing_cells", "annealing_figure"):
        sys.modules.pop(name, None)


def small(cells):
    return cells.Size(seeds=2, train=32, test=32, epochs=2, batch=16, steps=4)


def test_a_cell_is_trained_and_kept(study):
    _, cells, _ = study
    row = cells.train_cell(cells.Cell(2, 1.0, "shared", 2.0, "moving", 3.0, 1e-3), small(cells), "cpu")
    assert [len(run) for run in row["accuracy"]] == [2, 2]
    assert [len(run) for name in ("dead_start", "dead", "spikes") for run in row[name]] == [2] * 6
    assert row["ended"] == ["epochs", "epochs"]
    assert row["net"]["surrogate_center"] == "current"
    assert row["net"]["norm"] == "shared"
    assert json.loads(json.dumps(row)) == row
    assert cells.cell_of(row) == cells.Cell(2, 1.0, "shared", 2.0, "moving", 3.0, 1e-3)


def test_methods_differ_in_nothing_but_the_threshold_s_course(study):
    _, cells, _ = study
    size = small(cells)

    def net(method, level=2.0):
        first, second = cells.specs(cells.Cell(2, 1.0, "none", level, method, 3.0, 1e-3), size, "cpu")
        assert first.net == second.net
        assert (first.seed, second.seed) == (0, 1)
        return first.net

    fixed, annealed, moving, start = (net(method) for method in ("fixed", "annealed", "moving", "start"))
    for low, high, rise, slope in zip(start.theta, fixed.theta, annealed.theta, annealed.slope, strict=True):
        assert high == pytest.approx(4 * low, rel=1e-3)  # theta_0 is half of the drive, theta_inf twice
        assert (rise.start, rise.stop) == (low, high)
        assert slope == 3.0 / high
    assert net("fixed", 8.0).theta == pytest.approx([4 * theta for theta in fixed.theta], rel=1e-5)
    assert fixed.slope == annealed.slope == moving.slope
    assert moving.theta == annealed.theta
    assert (annealed.surrogate_center, moving.surrogate_center) == ("initial", "current")
    schedule = annealed.schedules(2)[0]
    way = (schedule(round(0.3 * cells.Size().iterations)) - schedule.start) / (schedule.stop - schedule.start)
    assert way > 0.95


def row_of(cells, cell, accuracy):
    values = {name: getattr(cell, name) for name in cells.Cell.__dataclass_fields__}
    return values | {"accuracy": [[1.0, accuracy], [1.0, accuracy + 1]], "dead": [[0.5, 0.0]] * 2, "seconds": 0.1}


def test_every_method_goes_on_with_its_best_of_the_grid(study):
    _, cells, _ = study
    tuning = cells.to_tune()
    assert len(set(tuning)) == len(tuning) == len(cells.GRID) * 2 * 4
    rows = [row_of(cells, cell, cells.GRID.index((cell.narrow, cell.lr))) for cell in tuning]
    todo = cells.cells(rows)
    assert {(cell.narrow, cell.lr) for cell in todo} == {cells.GRID[-1]}
    assert len(set(todo)) == len(todo) == len(cells.SETTINGS) * 2 * (1 + 3 * len(cells.LEVELS))
    assert {cell.norm for cell in cells.cells([row for row in rows if row["norm"] == "none"])} == {"none"}


def test_rows_are_kept_as_they_come_and_failures_counted(study, tmp_path, capsys):
    annealing, cells, _ = study
    good, bad, dead = (cells.Cell(2, 1.0, "none", level, "fixed", 3.0, 1e-3) for level in (1.0, 2.0, 4.0))
    out = tmp_path / "out.jsonl"
    out.write_text(json.dumps({"size": vars(small(cells))}) + "\n")
    futures = [Future() for _ in range(3)]
    futures[0].set_result(row_of(cells, good, 50.0))
    futures[1].set_result({**vars(bad), "error": "ValueError: no"})
    tries = dict.fromkeys((good, bad, dead), 0)
    annealing.collect(dict(zip(futures[:2], (good, bad), strict=True)), tries, out, float("inf"))
    assert tries == {bad: 1, dead: 0}
    assert [cells.cell_of(row) for row in annealing.finished(out, small(cells))] == [good]
    futures[2].set_running_or_notify_cancel()
    futures[2].set_exception(BrokenProcessPool("a worker died"))
    annealing.collect({futures[2]: dead}, tries, out, float("inf"))
    assert tries == {bad: 1, dead: 1}
    with pytest.raises(SystemExit, match="another size"):
        annealing.finished(out, cells.Size())


def test_no_cell_is_begun_after_the_deadline(study, tmp_path):
    annealing, cells, _ = study
    waiting = Future()
    annealing.collect({waiting: cells.to_tune()[0]}, {}, tmp_path / "out", until=0.0)
    assert waiting.cancelled()


def test_a_cell_that_fails_is_told_of(study, capsys):
    _, cells, _ = study
    row = cells.attempt(cells.Cell(7, 1.0, "none", 2.0, "fixed", 3.0, 1e-3), small(cells), "cpu")
    assert row["error"] == "KeyError: 7"
    assert "KeyError" in capsys.readouterr().err


def test_the_figure_and_the_table_show_the_best(study, tmp_path):
    _, cells, figure = study
    rows = [row_of(cells, cell, 10.0 * cells.GRID.index((cell.narrow, cell.lr))) for cell in cells.to_tune()]
    rows += [row_of(cells, cell, 30.0) for cell in cells.cells(rows) if (cell.depth, cell.norm) == (2, "none")]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ({"size": {}}, *rows, {**rows[0], "error": "no"})) + '\n{"cut')
    figure.draw(path, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    lines = figure.table(path).splitlines()
    assert "| 3 | 1 | none | 2 | 50.5 +- 0.7 / 25.8 / 50 |" in figure.table(path)
    assert len([line for line in lines if line.startswith("| ")]) == 1 + 2 + len(cells.LEVELS)


def test_a_line_that_was_cut_off_is_left_out_for_good(study, tmp_path):
    annealing, cells, _ = study
    out, size = tmp_path / "rows.jsonl", small(cells)
    header, row = json.dumps({"size": asdict(size)}), json.dumps({"depth": 2})
    out.write_text(f"{header}\n{row}\n" + row[:5])
    assert annealing.finished(out, size) == [{"depth": 2}]
    with out.open("a") as file:
        file.write(f"{row}\n")
    assert annealing.finished(out, size) == [{"depth": 2}] * 2
    out.write_text("")
    assert annealing.finished(out, size) == []
