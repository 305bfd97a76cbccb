"""Joint steps of several trials on a GPU: one chain of kernels with a trial dimension against a stream each.

    python benchmarks/trial_dimension.py [small dense camera dvs128 ...] [--together 5 20] [--seconds 1]
        [--out results/trial-dimension.json]

Each row has the time of a joint step of k networks both ways, and its ratio to the step of one network in the same
race. `small`, `dense` and `camera` are below the bound under which `run_together` takes the chain
(`trial_batch.MOST_NEURON_STEPS`); other names are those of `bitspike bench`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bitspike.bench.cases import CASES
from bitspike.bench.seeds import compare
from bitspike.experiments.provenance import versions
from bitspike.files import write_text
from bitspike.train import trial_batch

_SHD, _DVS = CASES["shd"], CASES["dvs128"]
OWN = {
    case.name: case
    for case in (
        replace(_SHD, name="small", notation="64Dense64Dense20", input_shape=(64,), batch=16, steps=50),
        replace(_SHD, name="dense", notation="128Dense256Dense20", input_shape=(128,), batch=32, steps=100),
        replace(_DVS, name="camera", notation="16Conv5-AP2-32Conv5-AP2-800Dense11", input_shape=(2, 34, 34), steps=31),
    )
}
WAYS = {"chain": 2**40, "streams": 0}  # the bound in neuron-steps that forces each way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", default=[*OWN, "dvs128"])
    parser.add_argument("--together", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("results/trial-dimension.json"))
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    result = {"command": shlex.join(["python", *sys.argv]), "versions": versions(), "rows": rows}
    for name in args.case:
        case = {**CASES, **OWN}[name]
        for count in args.together:
            row: dict[str, Any] = {"case": name, "neuron_steps": case.neuron_steps(), "together": count, "one_ms": []}
            for way, bound in WAYS.items():
                trial_batch.MOST_NEURON_STEPS = bound
                found = compare([case], count, torch.device("cuda", 0), args.seconds)["cases"][name]
                row[f"{way}_ms"] = found["together_ms"]["median"]
                row[f"{way}_ratio"] = found["ratio"]["median"]
                row["one_ms"].append(found["one_ms"]["median"])
                row[f"{way}_setting"] = found["setting"]
            rows.append(row)
            print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
            write_text(args.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
