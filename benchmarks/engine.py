"""How fast is the engine? The same networks in C, PyTorch, snnTorch and our own modules, in one run, in turns.

    python benchmarks/engine.py [--cases shd,fashion,...] [--batches 1,128] [--threads 1,2] [--seconds 4] [--out FILE]

Cases: `shd`, the paper's 700-3000-20 at T = 333 on events of SHD's density; `fashion`, the paper's network at T = 100;
`fashion-best` and `shd-best`, the trained networks of results/. Inputs are drawn from a seed. Every contender computes
the scores of the same batch; a time is the smallest of many, taken in turns, so that all see the same machine: of one
thread the processor's time, of several the time on the wall.
The engine's own answers are compared with those of our modules, bit for bit, before anything is timed.

The floor counts the engine's vector operations of 512 bits if nothing else took time: for each event and 512 of its
targets one load and two of the full adder's operations, for each 64 counters one operation a binary digit, for each 16
neurons ten. It is given in milliseconds at two operations a cycle and the clock that --ghz says.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
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
from engine_peers import our_modules, snntorch_loop, torch_layers, torch_loop

ROOT = Path(__file__).resolve().parents[1]
GOALS = {("shd", 1): {"PyTorch": 50, "snnTorch": 100}, ("fashion", 1): {"PyTorch": 15, "snnTorch": 50}}
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


def _contenders(net: SpikingNetwork, model: NetworkModel, x: np.ndarray, threads: int) -> dict[str, Callable[[], Any]]:
    engine, tensor = Engine(model, threads), torch.from_numpy(x)
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

    return {"engine": lambda: engine(x).scores, **{name: call(peer) for name, peer in peers.items()}}


def _floor(model: NetworkModel, out: EngineOutput, x: np.ndarray, ghz: float) -> dict[str, float]:
    """Return the engine's vector operations for one sample, and their time."""
    steps, batch = out.spikes.shape[:2]
    static = x.ndim == len(model.input_shape) + 1
    operations = 0.0
    events = float(x.sum()) / batch
    for i, (layer, step) in enumerate(zip(model.layers, out.layers, strict=True)):
        reach = layer.kernel**2 * layer.weight.shape[0] / layer.stride**2  # weights that an event meets
        lanes = layer.neurons * (layer.divisor if layer.kind == "conv" else 1)
        if not (static and i == 0):
            digits = np.log2(max(2.0, events / steps)) + 1
            operations += events * reach / 512 * 3 + steps * lanes / 64 * digits
        operations += steps * layer.neurons / 16 * 10
        events = float(step.spikes.sum()) / batch
    return {"operations": operations, "milliseconds": operations / 2 / (ghz * 1e6)}


def _bytes(model: NetworkModel, engine: Engine) -> dict[str, int]:
    c = engine._c
    assert c is not None
    held = [array for array in c._arrays[1:] if isinstance(array, np.ndarray)]
    return {
        "weights as bits": -(-model.weights // 8),
        "arrays of the engine": sum(array.nbytes for array in held),
        "state of one sample": c.new_state(c.c_model(reals=False, image=True)).nbytes,
        "float32 weights": 4 * model.weights,
        "largest resident size of the process": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


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
    calls = _contenders(net, model, x, threads)
    answers = {name: np.asarray(call()).argmax(1) for name, call in calls.items()}
    times = _times(calls, seconds, threads)
    floor = _floor(model, out, x, ghz)
    return {
        "case": case,
        "notation": model.notation,
        "steps": len(out.spikes),
        "batch": batch,
        "threads": threads,
        "milliseconds": times,
        "times faster": {name: value / times["engine"] for name, value in times.items() if name != "engine"},
        "same answers": {name: float((answer == answers["engine"]).mean()) for name, answer in answers.items()},
        "goals": GOALS.get((case, batch), {"PyTorch": 5} if batch == 128 else {}),
        "spikes a sample": [float(step.spikes.sum()) / batch for step in out.layers],
        "floor of one sample": floor,
        "distance from the floor": times["engine"] / batch * threads / floor["milliseconds"],
        "bytes": _bytes(model, engine),
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
    print("  " + ", ".join(f"{name} {value:,}" for name, value in row["bytes"].items()), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="shd,fashion,fashion-best,shd-best")
    parser.add_argument("--batches", default="1,128")
    parser.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each contender (at least three calls)")
    parser.add_argument("--ghz", type=float, default=2.3, help="the clock that the floor assumes")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(arguments)
    rows = []
    for case in args.cases.split(","):
        for batch in map(int, args.batches.split(",")):
            for threads in dict.fromkeys(map(int, args.threads.split(","))):
                rows.append(measure(case, batch, threads, args.seconds, args.ghz))
                show(rows[-1])
    if args.out:
        import snntorch

        made = {**versions(), "snntorch": snntorch.__version__, "numpy": np.__version__}
        write_text(
            args.out,
            json.dumps({"command": " ".join(["python", *sys.argv]), "versions": made, "rows": rows}, indent=2) + "\n",
        )


if __name__ == "__main__":
    main()
