"""Training steps of several processes against those of one: the time of a step, what they exchange, and equality.

    torchrun --nproc-per-node 2 benchmarks/several_processes.py [CASE...] [--steps 200] [--json FILE]

The global batch is the same everywhere, split over the processes. On one GPU they share it and exchange by gloo. Times
are of whole training steps, by the wall clock over so many of them: first one process alone, the others at rest, then
all of them. "plain modules" is how several processes ran before they had fused kernels. The bare messages are those of
a step, sent one after the other from the host's memory, without any work in between.

Equality: the same first batch from the same weights in one process and in several. Spikes are counted where the counts
of a neuron for a sample differ; a gradient's difference is relative to its norm. Then weights after more steps. Signs
of weights that are almost 0 flip by chance, and one flip changes spikes: how fast that grows is shown by one process
whose gradients are all moved by their last bit.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import bitspike
from bitspike.bench.cases import CASES, Case
from bitspike.bench.problem import experiment_of, synthetic, synthetic_labels
from bitspike.data.samples import Images, Samples, frames_from_dense
from bitspike.experiments.assembly import build_network, make_task, pick_device
from bitspike.experiments.schema import with_values
from bitspike.files import write_text
from bitspike.train.loop import Trainer
from bitspike.train.numerics import as_input, reproducible
from bitspike.train.run_folder import RunFolder
from bitspike.train.world import World, joined

SHD_BEST = Case(
    "shd-best",
    "SHD with delays",
    "shd/best",
    "140Dense272Dense272Dense20",
    (140,),
    batch=256,
    steps=100,
    density=0.1,
    repeats=0.1,
)
KNOWN = {**CASES, SHD_BEST.name: SHD_BEST}
ALONE = World()
Started = tuple[Trainer, Callable[[int], None]]


def data_of(case: Case, device: torch.device) -> Samples:
    """Return four batches of samples."""
    values, labels = (make(case, 4 * case.batch, 2, device) for make in (synthetic, synthetic_labels))
    return Images(values, labels) if case.static else frames_from_dense(values, labels)


def started(case: Case, samples: Samples, world: World, *, graph: bool, fused: bool = True) -> Started:
    """Return a new trainer, and a function that runs so many of its iterations."""
    spec = experiment_of(case)
    if spec.train.mix:
        spec = with_values(spec, ["train.mix=0"])  # several processes do not mix samples
    net = build_network(spec, case.input_shape)
    trainer = Trainer(
        net,
        spec.net.schedules(len(net.layers)),
        make_task(spec, net),
        samples,
        samples,
        spec.train,
        RunFolder(Path(tempfile.gettempdir()) / "bitspike-several"),  # named only: a step writes nothing
        seed=0,
        repeat=100,
        world=world,
        graph=graph,
    )
    if not fused:
        net._fused = lambda x: False
        trainer.work.world = _Plain(world.rank, world.size)

    def run(count: int) -> None:
        for _ in range(count):
            if not trainer.progress.step or trainer.progress.iteration >= trainer.work.count:
                trainer.begin_epoch()
            trainer.step()

    return trainer, run


class _Plain(World):
    """Processes whose batch norms exchange as they did before."""

    __slots__ = ()

    def shard(self, count: int, rows: int = 1) -> Any:
        found = World.shard(self, count, rows)
        return None if found is None else replace(found, everywhere=False)


def first_batch(trainer: Trainer) -> Tensor:
    trainer.net.train()
    return as_input(trainer.samples.batch(torch.arange(2, device=trainer.device))[0], torch.float32)


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def milliseconds(run: Callable[[int], None], count: int, device: torch.device, world: World, rounds: int = 3) -> float:
    """Return the time of a step: the least mean of `rounds`."""
    run(6)  # compiles, and records
    best = float("inf")
    for _ in range(rounds):
        world.wait()
        began = clock(device)
        run(count)
        best = min(best, (clock(device) - began) / count)
    return 1e3 * best


def messages_of(run: Callable[[int], None]) -> list[tuple[int, torch.dtype]]:
    """Return size and type of every message of one step."""
    sent: list[tuple[int, torch.dtype]] = []
    real = dist.all_reduce

    def noting(tensor: Tensor, *args: Any, **more: Any) -> Any:
        sent.append((tensor.numel(), tensor.dtype))
        return real(tensor, *args, **more)

    dist.all_reduce = noting
    try:
        run(1)
    finally:
        dist.all_reduce = real
    return sent


def bare(messages: list[tuple[int, torch.dtype]], repeats: int = 30) -> float:
    """Return the milliseconds that these messages take one after the other, from the host's memory."""
    tensors = [torch.zeros(numel, dtype=dtype) for numel, dtype in messages]
    dist.barrier()
    began = time.perf_counter()
    for _ in range(repeats):
        for tensor in tensors:
            dist.all_reduce(tensor)
    return 1e3 * (time.perf_counter() - began) / repeats


def state(trainer: Trainer) -> dict[str, Any]:
    """Return the spike counts of the last batch's rows here, and the gradients, which all processes have alike."""
    counts = [count.cpu() for count in trainer.observed.counts()]
    grads = {name: p.grad.cpu().clone() for name, p in trainer.net.named_parameters() if p.grad is not None}
    return {"counts": counts, "grads": grads, "weights": weights(trainer)}


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: p.detach().cpu().clone() for name, p in trainer.net.named_parameters()}


def apart(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, float]:
    """Return by how much two sets of tensors differ."""
    norms = [float((found[n] - wanted[n]).norm() / wanted[n].norm().clamp(min=1e-30)) for n in wanted]
    signs = sum(int(((found[n] >= 0) != (wanted[n] >= 0)).sum()) for n in wanted)
    total = sum(map(Tensor.numel, wanted.values()))
    return {"largest_relative_norm": max(norms), "signs_that_differ": signs, "of": total}


LATER = (1, 5, 20)  # iterations


def trajectory(run: Callable[[int], None], trainer: Trainer) -> dict[int, dict[str, Tensor]]:
    """Return the weights after each of LATER iterations."""
    found, done = {}, trainer.progress.step
    for count in LATER:
        run(count - done)
        found[count], done = weights(trainer), count
    return found


def moved_by_a_bit(trainer: Trainer) -> None:
    """Let every gradient be the next larger number: as much as another order of sums changes, or less."""
    update = trainer.work._update

    def moved() -> None:
        for p in trainer.work.parameters:
            if p.grad is not None:
                p.grad = torch.nextafter(p.grad, torch.full_like(p.grad, torch.inf))
        update()

    trainer.work._update = moved


def equality(case: Case, samples: Samples, world: World) -> dict[str, Any]:
    """Return how far several processes are from one after the first iteration, and how far their weights are later."""
    whole, alone, moved = None, {}, {}
    if world.first:
        trainer, run = started(case, samples, ALONE, graph=False)
        run(1)
        whole = state(trainer)
        alone = trajectory(run, trainer)
        trainer, run = started(case, samples, ALONE, graph=False)
        moved_by_a_bit(trainer)
        moved = trajectory(run, trainer)
    world.wait()
    trainer, run = started(case, samples, world, graph=False)
    run(1)
    here = state(trainer)
    found = trajectory(run, trainer)
    graphed, run = started(case, samples, world, graph=True)
    run(LATER[-1])
    later, replayed = found[LATER[-1]], weights(graphed)
    every: list[Any] = [None] * world.size
    dist.all_gather_object(every, (here["counts"], later))
    if whole is None:
        return {}
    differ = [
        int((torch.cat([counts[i] for counts, _ in every]) != count).sum()) for i, count in enumerate(whole["counts"])
    ]
    return {
        "counts_that_differ_by_layer": differ,
        "counts_by_layer": [count.numel() for count in whole["counts"]],
        "gradients_of_step_1": apart(here["grads"], whole["grads"]),
        "weights_after": {count: apart(found[count], alone[count]) for count in LATER},
        "one_process_with_gradients_moved_by_a_bit": {count: apart(moved[count], alone[count]) for count in LATER},
        "processes_equal_bit_for_bit": all(torch.equal(w[n], later[n]) for _, w in every for n in later),
        "graph_equals_no_graph_bit_for_bit": all(torch.equal(replayed[n], later[n]) for n in later),
        "graph": graphed.graph,
    }


def measure(case: Case, device: torch.device, world: World, steps: int) -> dict[str, Any]:
    """Return all figures of a case; those of the first process count."""
    samples = data_of(case, device)
    found: dict[str, Any] = {"case": case.name, "batch": case.batch, "steps": case.steps}
    found["equality"] = equality(case, samples, world)
    few = max(steps // 10, 3)
    times: dict[str, float] = {}
    for name, graph, count in (("one process", True, steps), ("one process, no graph", False, few)):
        if world.first:
            times[name] = milliseconds(started(case, samples, ALONE, graph=graph)[1], count, device, ALONE)
        world.wait()
    size = world.size
    for name, graph, fused, count in (
        (f"{size} processes", True, True, steps),
        (f"{size} processes, no graph", False, True, few),
        (f"{size} processes, plain modules", False, False, few // 2 + 1),
    ):
        trainer, run = started(case, samples, world, graph=graph, fused=fused)
        if graph:
            found["not_fused"] = trainer.net.unfused(first_batch(trainer))
        times[name] = milliseconds(run, count, device, world)
        if not graph:
            sent = messages_of(run)
            found[f"messages, {'fused' if fused else 'plain modules'}"] = {
                "count": len(sent),
                "bytes": sum(numel * dtype.itemsize for numel, dtype in sent),
                "bare_milliseconds": bare(sent),
            }
        del trainer, run
    found["milliseconds"] = times
    found["extra_milliseconds"] = times[f"{size} processes"] - times.get("one process", 0.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", default=["fashion", "dvs128", "shd", "shd-best"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    device = pick_device(args.device)
    gpu = device.type == "cuda"
    result: dict[str, Any] = {
        "command": "",
        "device": torch.cuda.get_device_name(device) if gpu else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "versions": {"bitspike": bitspike.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "cases": [],
    }
    with joined(device) as world, reproducible("float32"):
        if world.size == 1:
            raise SystemExit("several_processes: start it with torchrun --nproc-per-node 2")
        result["command"] = f"torchrun --nproc-per-node {world.size} {shlex.join(sys.argv)}"
        result["processes"], result["backend"] = world.size, dist.get_backend_config()
        if gpu:
            result["versions"]["triton"] = version("triton")
        for name in args.case:
            case = replace(KNOWN[name], batch=args.batch or KNOWN[name].batch)
            found = measure(case, device, world, args.steps)
            if not world.first:
                continue
            print(json.dumps(found, indent=1), flush=True)
            result["cases"].append(found)
            if args.json is not None:
                write_text(args.json, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
