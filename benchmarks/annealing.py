"""When does annealing help? Annealed against fixed thresholds, over input sparsity, depth, batch norm and threshold.

    python benchmarks/annealing.py --out results/annealing.jsonl --workers 6 --seconds 300
    python benchmarks/annealing.py --figure results/annealing.jsonl annealing.png
    python benchmarks/annealing.py --table results/annealing.jsonl

Thresholds are in units of the drive: theta_inf is `level` times the typical peak of the untrained layer's free membrane
(`bitspike.suggest.measure_drive`, the median over the seeds), so that a level asks the same of every layer, depth and
sparsity. theta_0 is the one that `suggest_schedules` would take. Methods at a level:

  fixed      theta_inf from the first iteration on
  annealed   theta_0 -> theta_inf, 95 % of the way in 30 % of the training; surrogate clamped at theta_0 (the paper)
  moving     the same, but the surrogate moves with theta (the released code)
  start      theta_0 for good: what is lost or won by a high threshold at all

The surrogate goes with the final threshold, slope = narrow / theta_inf: one in absolute units would favour one level
over another. So that no method is handicapped by `narrow` or the learning rate, each first takes its best of GRID, with
and without batch norm, where three layers see all pixels at level TUNED; all else is the same for every cell. The
accuracy is that of the last epoch on test images. Cells are appended as they finish; a run that is started again skips
them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import annealing_figure
import bitspike
from annealing_cells import METHODS, QUICK, Cell, Size, attempt, cell_of, cells, to_tune


def finished(out: Path, size: Size) -> list[dict[str, Any]]:
    """Return the rows of the cells that `out` holds already."""
    if not out.is_file():
        return []
    text = out.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]  # a write may have been cut off
    if whole != text:
        out.write_text(whole, encoding="utf-8")
    lines = [json.loads(line) for line in whole.splitlines()]
    if not lines:
        out.unlink()
        return []
    if lines[0]["size"] != asdict(size):
        raise SystemExit(f"{out} holds cells of another size, {lines[0]['size']}; choose another --out")
    return [row for row in lines[1:] if "error" not in row]


def study(todo: list[Cell], size: Size, device: str, workers: int, out: Path, until: float) -> int:
    """Train all cells, or as many as can be begun before `until`; return how many failed or were not made."""
    tries = dict.fromkeys(todo, 0)
    while (left := [cell for cell, count in tries.items() if count < 2]) and time.monotonic() < until:
        left.sort(key=tries.__getitem__)  # what ended a worker before comes last
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            collect({pool.submit(attempt, cell, size, device): cell for cell in left}, tries, out, until)
    return len(tries)


def collect(futures: dict[Future[dict[str, Any]], Cell], tries: dict[Cell, int], out: Path, until: float) -> None:
    """Write rows as they come; after `until`, only those of cells in work.

    A worker that dies ends the pool, and the cells that were in work count as tried.
    """
    pending, running = set(futures), list(futures.values())
    while pending:
        running = [futures[future] for future in pending if future.running()] or running
        done, pending = wait(pending, timeout=0.5, return_when="FIRST_COMPLETED")
        for future in done:
            if future.cancelled():
                continue
            if isinstance(future.exception(), BrokenProcessPool):
                tries.update({cell: tries[cell] + 1 for cell in running if cell in tries})
                return
            row, cell = future.result(), futures[future]
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if "error" in row:
                tries[cell] += 1
                continue
            del tries[cell]
            accuracy = statistics.mean(run[-1] if run else 0.0 for run in row["accuracy"])
            print(f"{cell}: {accuracy:.2f} % in {row['seconds']} s, {len(tries)} left", flush=True)
        if time.monotonic() > until:
            pending = {future for future in pending if not future.cancel()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/annealing.jsonl"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no cell after so long")
    parser.add_argument("--quick", action="store_true", help="two small cells, to see that it runs")
    parser.add_argument("--figure", nargs=2, type=Path, metavar=("RESULTS", "PICTURE"))
    parser.add_argument("--table", type=Path, metavar="RESULTS")
    args = parser.parse_args()
    if args.figure or args.table:
        if args.figure:
            annealing_figure.draw(*args.figure)
        if args.table:
            print(annealing_figure.table(args.table))
        return
    size = QUICK if args.quick else Size()
    began = time.monotonic()
    if not args.out.is_file():
        header = {
            "command": shlex.join(["python", *sys.argv]),
            "versions": {"bitspike": bitspike.__version__, "torch": torch.__version__},
            "device": torch.cuda.get_device_name() if args.device == "cuda" else args.device,
            "size": asdict(size),
        }
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(header) + "\n", encoding="utf-8")
    quick = [Cell(2, 1.0, "none", 4.0, method, 3.0, 1e-3) for method in METHODS[:2]]
    for stage in ("tuning", "study"):
        rows = finished(args.out, size)
        wanted = quick if args.quick else to_tune() if stage == "tuning" else cells(rows)
        done = {cell_of(row) for row in rows}
        todo = [cell for cell in wanted if cell not in done]
        print(f"{stage}: {len(todo)} of {len(wanted)} cells to train, {size.iterations} iterations each", flush=True)
        left = study(todo, size, args.device, args.workers, args.out, began + args.seconds)
        taken = time.monotonic() - began
        print(f"{stage}: {len(todo) - left} cells, {left} left or failed; {taken:.0f} s -> {args.out}", flush=True)


if __name__ == "__main__":
    main()
