"""How fast is the engine? The same networks in C, PyTorch, ONNX Runtime, snnTorch and our modules, in turns.

    python benchmarks/engine.py [--cases shd,fashion,...] [--batches 1,128] [--threads 1,2] [--seconds 1] [--out FILE]

Cases: `shd`, the paper's 700-3000-20 at T = 333 on events of SHD's density; `fashion`, the paper's network at T = 100;
`fashion-best` and `shd-best`, the trained networks of results/. Inputs are drawn from a seed. Every contender computes
the scores of the same batch; a time is the smallest of many, taken in turns, so that all see the same machine: of one
thread the processor's time, of several the time on the wall.
The engine's spikes are compared with those of our modules, bit for bit, before anything is timed, and the spikes of
ONNX Runtime with the engine's: it adds real inputs in float32, so some may differ, and the result says how many. Its
column is left out, with the reason, where onnx and onnxruntime are not installed (the extra `bench`).

The floor counts the engine's vector operations of 512 bits if nothing else took time: for each event and 512 of its
targets one load and two of the full adder's operations, for each 64 counters one operation a binary digit, for each 16
neurons ten, and for each 8 products of an image with first weights two. It is given in milliseconds at two operations a
cycle and the clock that --ghz says; without it the clock is measured. The last lines are the tables for the docs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import bitspike
from bitspike.deploy.describe import describe
from bitspike.deploy.engine import Engine, EngineOutput
from bitspike.deploy.model import NetworkModel
from bitspike.experiments.provenance import versions
from bitspike.files import write_text
from bitspike.nn import SpikingNetwork
from engine_floor import bytes_of, floor_of, measured_ghz, process_megabytes
from engine_peers import our_modules, snntorch_loop, torch_layers, torch_loop

NO_ONNX: str | None = None  # why ONNX Runtime is left out
try:
    import engine_onnx
except ImportError as error:
    NO_ONNX = f"ONNX Runtime is left out: {error}; pip install onnx onnxruntime"

ROOT = Path(__file__).resolve().parents[1]
GOALS = {  # against each form of PyTorch, so that the strongest counts
    ("shd", 1): {"PyTorch": 50, "PyTorch by layers": 50, "snnTorch": 100},
    ("fashion", 1): {"PyTorch": 15, "PyTorch by layers": 15, "snnTorch": 50},
    ("fashion-best", 1): {"PyTorch": 15, "PyTorch by layers": 15},
}
GOAL_OF_BATCHES = {"PyTorch": 5, "PyTorch by layers": 5}
EVENTS = 5700  # of an average SHD recording


def _build(notation: str, shape: tuple[int, ...], **settings: Any) -> SpikingNetwork:
    generator = torch.Generator().manual_seed(0)
    return bitspike.build(notation, shape, generator=generator, **settings)


def _network(case: str) -> SpikingNetwork:
    """Return the network of a case. Thresholds of those that are not trained let some percent of neurons fire."""
    if case == "shd":
        return _build("700-3000-20", (700,), beta=0.95, theta=10.0)
    if case == "fashion":
        notation = "16Conv5-AP2-64Conv5-AP2-1024Dense10"
        return _build(notation, (1, 28, 28), steps=100, beta=0.87, theta=[2.0, 12.0, 20.0])
    return bitspike.load_run(ROOT / {"fashion-best": "results/best/fashion", "shd-best": "results/shd-best"}[case])


def _input(case: str, batch: int) -> np.ndarray:
    """Return a batch: events at SHD's rate, or images of smooth blobs with a black border."""
    rng = np.random.default_rng(batch)
    if case == "shd":
        return (rng.random((333, batch, 700)) < EVENTS / 333 / 700).astype(np.float32)
    if case == "shd-best":
        return rng.poisson(EVENTS / 100 / 140, (100, batch, 140)).astype(np.float32)
    coarse = torch.from_numpy(rng.random((batch, 1, 7, 7)))
    images = torch.nn.functional.interpolate(coarse, (28, 28), mode="bilinear").numpy()
    images[..., :4], images[..., -4:] = 0, 0
    return (np.round(255 * np.clip(1.6 * images - 0.4, 0, 1)) / 255).astype(np.float32)


def _times(calls: dict[str, Callable[[], Any]], seconds: float, threads: int) -> dict[str, float]:
    """Return the smallest time of each call in milliseconds; all calls take their turns.

    With one thread it is the processor's time, which other programs on the machine do not lengthen; with more it is the
    time on the wall.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    best, spent = dict.fromkeys(calls, float("inf")), dict.fromkeys(calls, 0.0)
    rounds = 0
    while rounds < 2 or min(spent.values()) < seconds:
        for name, call in calls.items():
            if rounds >= 2 and spent[name] > seconds:
                continue
            start = clock()
            call()
            taken = clock() - start
            best[name], spent[name] = min(best[name], taken), spent[name] + taken
        rounds += 1
    return {name: 1000 * value for name, value in best.items()}


def _contenders(
    net: SpikingNetwork, model: NetworkModel, x: np.ndarray, engine: Engine, threads: int
) -> dict[str, Callable[[], Any]]:
    tensor = torch.from_numpy(x)
    peers = {
        "PyTorch": torch_loop(model),
        "PyTorch by layers": torch_layers(model),
        "our modules": our_modules(net),
        "snnTorch": snntorch_loop(model),
    }

    def call(peer: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Any]:
        def run() -> Any:
            with torch.inference_mode():
                return peer(tensor)

        return run

    calls = {"engine": lambda: engine(x).scores, **{name: call(peer) for name, peer in peers.items()}}
    if NO_ONNX is None:
        calls["ONNX Runtime"] = engine_onnx.onnx_layers(model, x, threads)
    return calls


def _different_in_onnx(model: NetworkModel, x: np.ndarray, out: EngineOutput) -> dict[str, Any]:
    """Return how many spikes of ONNX Runtime are not the engine's, and how far its scores are away."""
    batch = out.spikes.shape[1]
    scores, *layers = engine_onnx.onnx_spikes(model, x)
    different = {"neuron-steps": 0, "spikes": 0, "scores, at most": float(np.abs(scores - out.scores).max())}
    for layer, mine, theirs in zip(model.layers, out.layers, layers, strict=True):
        if layer.theta is not None:
            glances = theirs.shape[1] // batch
            found = theirs.reshape(len(theirs), batch, glances, -1).transpose(2, 0, 1, 3).reshape(mine.spikes.shape)
            different["neuron-steps"] += found.size
            different["spikes"] += int((found != mine.spikes).sum())
    return different


def measure(case: str, batch: int, threads: int, seconds: float, ghz: float) -> dict[str, Any]:
    """Return the times of all contenders on one case, the engine's floor and its memory."""
    torch.set_num_threads(threads)
    net = _network(case).eval()
    model, x = describe(net), _input(case, batch)
    engine = Engine(model, threads)
    out = engine(x, record=True)
    with torch.inference_mode():
        spikes = net(torch.from_numpy(x)).spikes.numpy()
    if not np.array_equal(spikes, out.spikes):
        raise SystemExit(f"engine.py: {case}: the engine's spikes are not those of our modules")
    calls = _contenders(net, model, x, engine, threads)
    answers = {name: np.asarray(call()).argmax(1) for name, call in calls.items()}
    times = _times(calls, seconds, threads)
    floor = floor_of(model, out, x, ghz)
    return {
        "case": case,
        "notation": model.notation,
        "steps": len(out.spikes),
        "batch": batch,
        "threads": threads,
        "milliseconds": times,
        "times faster": {name: value / times["engine"] for name, value in times.items() if name != "engine"},
        "same answers": {name: float((answer == answers["engine"]).mean()) for name, answer in answers.items()},
        "goals": GOALS.get((case, batch), GOAL_OF_BATCHES if batch == 128 else {}),
        "spikes a sample": [float(step.spikes.sum()) / batch for step in out.layers],
        "floor of one sample": floor,
        "distance from the floor": times["engine"] / batch * min(threads, batch) / floor["milliseconds"],
        "different in ONNX Runtime": NO_ONNX or _different_in_onnx(model, x, out),
        "bytes": bytes_of(model, engine),
        "megabytes of a process": process_megabytes(model, x, threads),
    }


def show(row: dict[str, Any]) -> None:
    """Print one row as a few lines."""
    print(f"{row['case']} ({row['notation']}, T = {row['steps']}), batch {row['batch']}, {row['threads']} threads")
    for name, value in row["milliseconds"].items():
        faster = row["times faster"].get(name)
        goal = row["goals"].get(name)
        told = "" if faster is None else f"  {faster:7.1f} times" + (f" (goal {goal})" if goal else "")
        print(f"  {name:18} {value:10.3f} ms{told}")
    floor = row["floor of one sample"]["milliseconds"]
    print(f"  floor {floor:.3f} ms a sample; the engine is {row['distance from the floor']:.1f} times that")
    print(f"  ONNX Runtime differs: {row['different in ONNX Runtime']}")
    print("  bytes: " + ", ".join(f"{name} {value:,}" for name, value in row["bytes"].items()))
    told = ", ".join(f"{name} {value:.0f}" for name, value in row["megabytes of a process"].items())
    print(f"  megabytes of a process with the engine: {told}", flush=True)


def tables(rows: list[dict[str, Any]]) -> str:
    """Return the times and the memory of all rows as two tables in Markdown."""
    peers = list(dict.fromkeys(name for row in rows for name in row["times faster"]))
    lines = [
        f"| ms (times faster) | batch | threads | engine | {' | '.join(peers)} | floor | distance |",
        "|---" + "|--:" * (5 + len(peers)) + "|",
    ]
    for row in rows:
        cells = [f"{row['case']}, T={row['steps']}", str(row["batch"]), str(row["threads"])]
        cells.append(_short(row["milliseconds"]["engine"]))
        for name in peers:
            faster = row["times faster"].get(name)
            cells.append("" if faster is None else f"{_short(row['milliseconds'][name])} ({_short(faster)} x)")
        floor = row["floor of one sample"]["milliseconds"] * row["batch"] / min(row["threads"], row["batch"])
        lines.append("| " + " | ".join([*cells, _short(floor), f"{row['distance from the floor']:.1f} x"]) + " |")
    sizes = list(rows[0]["bytes"])
    lines += [
        "",
        f"| bytes | {' | '.join(sizes)} | process before, MB | at most, MB |",
        "|---" + "|--:" * (2 + len(sizes)) + "|",
    ]
    for row in rows:
        name = f"{row['case']}, batch {row['batch']}, {row['threads']} threads"
        memory = [f"{value:.0f}" for value in row["megabytes of a process"].values()]
        lines.append("| " + " | ".join([name, *(f"{row['bytes'][size]:,}" for size in sizes), *memory]) + " |")
    return "\n".join(lines)


def _short(value: float) -> str:
    """Return a number with two digits that count, or all of those before the point."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="shd,fashion,fashion-best,shd-best")
    parser.add_argument("--batches", default="1,128")
    parser.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each contender (at least three calls)")
    parser.add_argument("--ghz", type=float, help="the clock that the floor assumes; measured by default")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(arguments)
    ghz = args.ghz or measured_ghz() or 2.3
    print(f"the floor is at {ghz:.2f} GHz" + (f"; {NO_ONNX}" if NO_ONNX else ""))
    rows = []
    for case in args.cases.split(","):
        for batch in map(int, args.batches.split(",")):
            for threads in dict.fromkeys(map(int, args.threads.split(","))):
                rows.append(measure(case, batch, threads, args.seconds, ghz))
                show(rows[-1])
    print(tables(rows))
    if args.out:
        import snntorch

        made = {**versions(), "snntorch": snntorch.__version__, "numpy": np.__version__}
        if NO_ONNX is None:
            made["onnxruntime"] = engine_onnx.onnxruntime.__version__
        write_text(
            args.out,
            json.dumps(
                {"command": " ".join(["python", *sys.argv]), "versions": made, "GHz": ghz, "rows": rows}, indent=2
            )
            + "\n",
        )


if __name__ == "__main__":
    main()
