"""A benchmark of several networks trained together against one alone: how many times longer a joint step takes."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from bitspike import __version__
from bitspike.bench.cases import Case, select_cases
from bitspike.bench.contender import Arithmetic, Contender, waiter
from bitspike.bench.ours import samples_of
from bitspike.bench.problem import Problem, prepare
from bitspike.bench.timing import Spread, allocated, race, ratios, warm_up
from bitspike.data.samples import Samples
from bitspike.experiments.assembly import build_network, make_task
from bitspike.train.loop import Trainer
from bitspike.train.run_folder import RunFolder
from bitspike.train.together import Joint, Lane

Result = dict[str, Any]

_PASSES = 100  # over the few samples there are: an epoch as long as FashionMNIST's
_EXACT = Arithmetic(matmul_tf32=False, conv_tf32=False, deterministic=True)  # as `bitspike train` sets it


def select_step_cases(names: Sequence[str], device: str) -> list[Case]:
    """Return the cases of these names, by default those that suit the device; all must be whole training steps."""
    chosen = select_cases(names, device)
    if not names:
        return [case for case in chosen if case.work == "step"]
    for case in chosen:
        if case.work != "step":
            raise ValueError(f"bench --seeds: {case.name} is a single layer that is not trained; choose another case")
    return chosen


def compare(
    cases: Sequence[Case],
    count: int,
    device: torch.device,
    seconds: float = 20.0,
    command: str = "bitspike.bench.seeds",
    begin: Callable[[str, int], Callable[[], None]] = lambda stage, steps: lambda: None,
) -> Result:
    """Time, for every case, a step of one network and of `count` together, in turns; return both and their ratio."""
    from bitspike.experiments.provenance import versions

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it our steps would not be deterministic
    result: Result = {"format": 1, "command": command, "versions": versions(), "device": str(device), "seeds": count}
    result["cases"] = {case.name: _case(case, count, device, seconds, begin) for case in cases}
    return result


def _case(
    case: Case, count: int, device: torch.device, seconds: float, begin: Callable[[str, int], Callable[[], None]]
) -> Result:
    problem = prepare(case, device)
    samples = samples_of(problem)
    tick = begin(f"{case.name}: first steps", 2)
    entrants = []
    for networks in (1, count):
        before = allocated(device)
        entrants.append(warm_up(_contender(problem, samples, networks), device, before))
        tick()
    race(entrants, device, seconds, begin(f"{case.name}: rounds", 25))
    one, several = entrants
    states = [entrant.contender.state() for entrant in entrants if entrant.contender.state is not None]
    found = {
        "title": case.title,
        "batch": case.batch,
        "steps": case.steps,
        "one_ms": Spread.of([1e3 * s for s in one.seconds]).rounded(),
        "together_ms": Spread.of([1e3 * s for s in several.seconds]).rounded(),
        "ratio": ratios(one, several).rounded(3),
        "peak_mb": [None if entrant.peak is None else round(entrant.peak / 2**20, 1) for entrant in entrants],
        "setting": states[0] if states[0] == states[1] else f"one: {states[0]}; together: {states[1]}",
        "rounds": len(one.seconds),
    }
    entrants.clear()
    del one, several
    gc.collect()
    return found


def _contender(problem: Problem, samples: Samples, networks: int) -> Contender:
    steps = JointSteps([_trainer(problem, samples, seed) for seed in range(networks)])
    return Contender(
        name=f"{networks} together",
        library="bitspike",
        version=__version__,
        setting="train.together.Joint.step",
        differs=(),
        step=steps,
        wait=waiter(problem.device),
        state=steps.graph,
        arithmetic=_EXACT,
    )


def _trainer(problem: Problem, samples: Samples, seed: int) -> Trainer:
    spec = problem.experiment.model_copy(update={"seed": seed})
    net = build_network(spec, problem.case.input_shape)
    layers = len(net.layers)
    folder = RunFolder(Path(tempfile.gettempdir()) / f"bitspike-bench-{seed}")  # named only: a step writes nothing
    return Trainer(
        net, spec.net.schedules(layers), make_task(spec, net), samples, samples, spec.train, folder,
        seed=seed, repeat=_PASSES,
    )  # fmt: skip


class JointSteps:
    """An endless series of joint steps of trainers: after an epoch the next one begins."""

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers = list(trainers)
        self._joint = Joint(Lane.for_trainer(trainer) for trainer in trainers)
        self._left = 0

    def __call__(self) -> object:
        if not self._left:
            for trainer in self.trainers:
                trainer.begin_epoch()
            self._left = self.trainers[0].work.count
        self._joint.step()
        self._left -= 1
        return self.trainers[-1].observed

    def graph(self) -> str:
        """Return words that say whether steps are now replayed from a CUDA graph."""
        graph = self.trainers[0].graph
        return "CUDA graph" if graph is True else f"no CUDA graph: {graph}"


def lines(result: Result) -> list[str]:
    """Return the result as lines for the terminal."""
    count = result["seeds"]
    found = [f"{'case':<12} {'one, ms':>10} {f'{count} together, ms':>18} {'ratio':>7}  MB one / together"]
    for name, case in result["cases"].items():
        memory = " / ".join("-" if mb is None else f"{mb:,.0f}" for mb in case["peak_mb"])
        found.append(
            f"{name:<12} {case['one_ms']['median']:>10.4g} {case['together_ms']['median']:>18.4g} "
            f"{case['ratio']['median']:>7.3g}  {memory}  ({case['setting']})"
        )
    return found
