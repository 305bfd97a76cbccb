"""Is our training step the released code's? Both train the real networks on the same batches, and are compared.

    python benchmarks/released_step.py [--iterations 20] [--tasks fashion,mnist] [--precision float64,float32] [--out F]

Theirs is released_network.py, in snnTorch. Ours, released_ours.py, is what `bitspike train {fashion,mnist}/annealed`
repeats (`train.iteration.Iteration`: batch, forward, loss, backward, optimizer, thresholds) with
net.backend="reference" and net.surrogate_center="current". Both start from our weights, take the same rows of the real
training set in the same order, and drop the same currents: the masks are a pure function of iteration and place
(`ops.dropout.keep_mask`), drawn for both. Each is then left to itself for all iterations.

The two sum floats in another order, so membranes differ by rounding, and a neuron within that of theta fires in one of
them only. From that iteration on they are two trainings. In float64 rounding is too small to flip a spike: there all
iterations must agree, and this is the proof. In float32 the neurons that flip first, those of which nothing before
them differs, must lie within rounding of theta.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Images
from bitspike.experiments.presets import preset
from bitspike.experiments.provenance import versions
from bitspike.files import write_text
from bitspike.ops import LIFOutput
from bitspike.ops.dropout.reference import keep_mask
from bitspike.train.numerics import dtype_of
from bitspike.train.seeds import order
from released_ours import OurTraining

try:
    from released_network import RELEASED, Recipe, ReleasedTraining
except ModuleNotFoundError as error:
    raise SystemExit(f"released_step: {error.name} is not installed; run: pip install snntorch==1.0.0") from None

# What rounding may do to an iteration before any spike flips, doubled with every iteration, because training amplifies
# every difference (measured: 1.5 to 2 times an iteration). Of the loss (relative), a parameter (of its update), a
# threshold, running averages (of the largest), membranes (of themselves or theta, whichever is larger; there is nothing
# that keeps one from falling to -1000), and the distance from theta of one whose spike flips, likewise.
TOLERANCE = {
    "float64": {"loss": 1e-14, "parameters": 1e-10, "thresholds": 1e-14, "averages": 1e-13, "membranes": 1e-11},
    "float32": {"loss": 1e-6, "parameters": 1e-2, "thresholds": 1e-6, "averages": 1e-5, "membranes": 1e-5},
}


class Watch:
    """Compares their spikes and membranes, step by step, with ours of the whole iteration.

    A neuron whose spike differs where all before it, below it and in its own past, is the same has flipped by itself.
    With batch norm everything below a layer is everything of the batch up to this step.
    """

    def __init__(self, ours: Sequence[LIFOutput], thetas: Sequence[float]) -> None:
        self.ours, self.thetas = ours, thetas
        self.same = [torch.ones_like(out.spikes[0], dtype=torch.bool) for out in ours]
        self.differing = [0] * len(ours)  # spikes
        self.first = 0  # neurons that flipped by themselves
        self.ties = 0  # those of them whose membrane is theta to the bit, where we fire and snnTorch does not
        self.farthest = 0.0  # from theta, the membrane of one of those, ours or theirs; in units of theta
        self.membrane = 0.0  # the largest relative difference of two membranes before anything flips

    @torch.no_grad()
    def __call__(self, layer: int, t: int, spikes: Tensor, membrane: Tensor) -> None:
        mine, same = self.ours[layer], self.same[layer]
        differs = spikes != mine.spikes[t]
        theta = self.thetas[layer]
        gap = (membrane - mine.membrane[t]).abs() / membrane.abs().clamp(min=theta)
        if all(not self.differing[below] for below in range(layer)):
            self.membrane = max(self.membrane, (gap * same).max().item())
            flipped = differs & same
            self.first += int(flipped.sum())
            self.ties += int((flipped & (gap == 0) & (membrane == theta)).sum())
            for u in (membrane[flipped], mine.membrane[t][flipped]):
                self.farthest = max([self.farthest, *((u - theta) / theta).abs().tolist()])
        self.differing[layer] += int(differs.sum())
        same &= ~differs

    def figures(self) -> dict[str, Any]:
        return {
            "membrane_difference": self.membrane,
            "spikes": [int(out.spikes.sum()) for out in self.ours],
            "spikes_differing": self.differing,
            "neurons_flipped_first": self.first,
            "at_theta_to_the_bit": self.ties,
            "farthest_from_theta": self.farthest,
        }


def _farthest(ours: Sequence[Tensor], theirs: Sequence[Tensor], scales: Sequence[Tensor]) -> list[float]:
    """Return the largest difference of each pair, in units of the largest value of its scale."""
    triples = zip(ours, theirs, scales, strict=True)
    return [((a - b).abs().max() / s.abs().max().clamp(min=1e-300)).item() for a, b, s in triples]


def _averages(net: nn.Module) -> list[Tensor]:
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    return [average for m in norms for average in (m.running_mean, m.running_var)]


def compare(
    task: str, samples: Images, *, iterations: int, batch: int, steps: int = 100, precision: str, dropout: bool = True
) -> list[dict[str, Any]]:
    """Return figures of every iteration; each training goes on from its own weights."""
    ours = OurTraining(task, samples, batch=batch, steps=steps, precision=precision, dropout=dropout)
    recipe, dtype = RELEASED[task], dtype_of(ours.spec.train.precision)
    theirs = ReleasedTraining(recipe, steps, dtype)
    with torch.no_grad():
        for p, q in zip(ours.net.parameters(), theirs.net.parameters(), strict=True):
            q.copy_(p)
    rows = order(len(samples), 1, ours.spec.seed, 0).split(batch)[:iterations]
    found = []
    for k, chosen in enumerate(rows):
        began, thetas = time.perf_counter(), theirs.thresholds()
        before = [q.detach().clone() for q in theirs.net.parameters()]
        loss, layers = ours.iteration(k)
        watch = Watch(layers, thetas)
        x, labels = samples.values[chosen].float().div(255).to(dtype), samples.labels[chosen]
        scale = _scale(recipe, ours, (steps, len(chosen), 10), dtype) if dropout else x.new_ones(steps, 1, 1)
        their_loss = theirs.iteration(x, labels, scale, watch)
        figures = {"iteration": k + 1, "loss": loss, "loss_difference": abs(loss - their_loss)}
        found.append({**figures, **_after(ours, theirs, before), **watch.figures()})
        print(f"{task} {precision}{'' if dropout else ' no dropout'} {_line(found[-1], began)}", flush=True)
    return found


def _after(ours: OurTraining, theirs: ReleasedTraining, before: Sequence[Tensor]) -> dict[str, Any]:
    """Compare what an iteration has left in both trainings; `before` are their parameters before it."""
    names, parameters = zip(*ours.net.named_parameters(), strict=True)
    others = list(theirs.net.parameters())
    updates = [q.detach() - b for q, b in zip(others, before, strict=True)]
    kinds = zip(parameters, others, strict=True)
    averages = _averages(theirs.net)
    thetas = [layer.lif.theta.item() for layer in ours.net.layers]
    return {
        "parameter_differences": dict(zip(names, _farthest(parameters, others, updates), strict=True)),
        "largest_updates": {name: u.abs().max().item() for name, u in zip(names, updates, strict=True)},
        "signs_differing": sum(int(((p < 0) != (q < 0)).sum()) for p, q in kinds if p.dim() > 1),
        "thresholds": thetas,
        "threshold_difference": max(abs(a / b - 1) for a, b in zip(thetas, theirs.thresholds(), strict=True)),
        "averages_difference": max(_farthest(_averages(ours.net), averages, averages)),
    }


def _scale(recipe: Recipe, ours: OurTraining, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return what the released network's dropout multiplies by, if our mask of this iteration decides."""
    return keep_mask(shape, recipe.dropout, ours.key, len(ours.net.layers) - 1).to(dtype).div_(1 - recipe.dropout)


def _line(row: dict[str, Any], began: float) -> str:
    worst = max(row["parameter_differences"].values())
    return (
        f"{row['iteration']:>3}: loss {row['loss']:.6f} off by {row['loss_difference']:.1e}, parameters {worst:.1e} of "
        f"an update, averages {row['averages_difference']:.1e}, membranes {row['membrane_difference']:.1e}; spikes "
        f"that differ {row['spikes_differing']}, {row['neurons_flipped_first']} by themselves, within "
        f"{row['farthest_from_theta']:.1e} of theta ({time.perf_counter() - began:.1f} s)"
    )


def judge(rows: Sequence[dict[str, Any]], precision: str) -> dict[str, Any]:
    """Return the worst figures up to the first iteration with a different spike, and whether rounding explains them."""
    flip = next((row for row in rows if any(row["spikes_differing"])), None)
    until = flip["iteration"] if flip else len(rows) + 1
    worst = dict.fromkeys(TOLERANCE[precision], 0.0)
    over: dict[str, int] = {}  # name: iteration
    for row in rows[:until]:
        found = _before_flips(row) if row["iteration"] < until else {"membranes": row["farthest_from_theta"]}
        for name, value in found.items():
            worst[name] = max(worst[name], value)
            if not value <= min(TOLERANCE[precision][name] * 2 ** row["iteration"], 0.1):
                over.setdefault(name, row["iteration"])
    said = f"equal to {precision} rounding in all {len(rows)} iterations, every spike the same"
    if flip is not None:
        said = (
            f"equal to {precision} rounding until iteration {until}, where {flip['neurons_flipped_first']} "
            f"neurons flip whose membranes are within {flip['farthest_from_theta']:.1e} * theta of theta "
            f"({flip['at_theta_to_the_bit']} of them theta to the bit: u >= theta fires here, u > theta in snnTorch)"
        )
    if over:
        told = ", ".join(f"{name} from iteration {iteration} on" for name, iteration in over.items())
        said = f"NOT equal, beyond rounding: {told}"
    return {"said": said, "first_flip": flip and until, "worst": worst, "beyond_rounding": over}


def _before_flips(row: dict[str, Any]) -> dict[str, float]:
    return {
        "loss": row["loss_difference"] / row["loss"],
        "parameters": max(row["parameter_differences"].values()),
        "thresholds": row["threshold_difference"],
        "averages": row["averages_difference"],
        "membranes": row["membrane_difference"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path, help="where the data sets lie (default: where bitspike looks)")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--without-dropout", type=int, default=3, help="iterations of a second run, without dropout")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--tasks", default="fashion,mnist")
    parser.add_argument("--precision", default="float64,float32")
    parser.add_argument("--out", type=Path, help="a JSON file; runs of other tasks or precisions in it are kept")
    chosen = parser.parse_args()
    tasks, precisions = chosen.tasks.split(","), chosen.precision.split(",")
    for option, given, known in (("tasks", tasks, RELEASED), ("precision", precisions, TOLERANCE)):
        if wrong := set(given) - set(known):
            raise SystemExit(f"released_step: --{option} must be of {', '.join(known)}, but has {', '.join(wrong)}")
    said = []
    failed = False
    for task, precision, dropout in itertools.product(tasks, precisions, (True, False)):
        samples = open_dataset(preset(f"{task}/annealed").data, root=chosen.data_root).train
        iterations = chosen.iterations if dropout else chosen.without_dropout
        rows = compare(task, samples, iterations=iterations, batch=chosen.batch, precision=precision, dropout=dropout)
        verdict = judge(rows, precision)
        if chosen.out:
            about = {"task": task, "precision": precision, "dropout": dropout, "batch": chosen.batch}
            _write(chosen, {**about, **verdict, "iterations": rows})
        said.append(f"{task:7} {precision} dropout {'on ' if dropout else 'off'}: {verdict['said']}")
        failed |= bool(verdict["beyond_rounding"])
        print(said[-1])
    print("", *said, sep="\n")
    if failed:
        raise SystemExit("released_step: a difference that rounding does not explain")


def _write(chosen: argparse.Namespace, run: dict[str, Any]) -> None:
    """Write the result into the file, in place of an earlier one of the same task, precision and dropout."""
    import snntorch

    command = (
        f"python benchmarks/released_step.py --iterations {chosen.iterations} --without-dropout "
        f"{chosen.without_dropout} --batch {chosen.batch} --tasks {chosen.tasks} --precision {chosen.precision} "
        f"--out {chosen.out.name if chosen.out.is_absolute() else chosen.out}"
    )
    made = {"command": command, "seed": 0, "versions": {**versions(), "snntorch": snntorch.__version__}}

    def name(one: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(one[key] for key in ("task", "precision", "dropout"))

    runs = json.loads(chosen.out.read_text())["runs"] if chosen.out.is_file() else []
    runs = sorted([one for one in runs if name(one) != name(run)] + [_rounded({**run, **made})], key=name, reverse=True)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(chosen.out, '{"runs": [\n' + ",\n".join(json.dumps(one) for one in runs) + "\n]}\n")


def _rounded(value: Any) -> Any:
    """Return a value rounded: three digits for a difference, all that a float32 has for a loss."""
    if isinstance(value, float):
        return float(f"{value:.9g}" if abs(value) > 1e-3 else f"{value:.2e}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
