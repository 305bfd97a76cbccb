"""Do fused kernels spike as the plain definition does? Counted on trained networks of the paper and on random ones.

    python benchmarks/exactness.py [RUN ...] [--json FILE]

Every layer gets the very spikes that the fused layer before it gave, once fused and once by the reference (float32, step
by step), in training mode and in evaluation. RUN is a folder of `bitspike train`; its test samples are used.
Where batch statistics are summed in another order a membrane may come out a little different, so that a spike flips: for
each neuron whose train of spikes differs, the first difference is looked at, and how far from theta the membrane was.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path

import torch
from torch import Tensor

import bitspike
from bitspike.nn import SpikingNetwork, fused
from bitspike.nn.dropout import set_dropout_key

RANDOM = [  # notation, input, steps (0: a static image), batch, settings
    ("7Conv3-AP2-13Conv3-AP2-117Dense10", (1, 16, 16), 0, 5, {"norm": "step", "theta": [0.6, 0.8, 1.5]}),
    ("5Conv4-AP3-9Conv3-81Dense7", (3, 18, 18), 11, 1, {"theta": [3.0, 2.0, 4.0]}),
    ("16Conv5-AP2-64Conv5-AP2-1024Dense10", (1, 28, 28), 0, 128, {"norm": "shared", "theta": 1.0, "dropout": 0.5}),
    ("701Dense333Dense19", (701,), 1, 3, {"theta": 5.0, "dropout": 0.2}),
    ("100Dense999Dense77Dense3", (100,), 257, 17, {"theta": [4.0, 9.0, 5.0], "beta": 0.95}),
]


def compare(net: SpikingNetwork, x: Tensor) -> dict[str, float]:
    """Layer by layer; see above."""
    plain = copy.deepcopy(net)
    for layer in plain.layers:
        layer.lif.backend = "reference"
    if reason := net.unfused(x):
        raise SystemExit(f"exactness: not fused: {reason}")
    found = {"neuron_steps": 0, "spikes": 0, "flipped_neurons": 0, "farthest_from_theta": 0.0}
    steps = net._steps(x, None)
    with torch.set_grad_enabled(net.training):
        out, hidden = fused.run(list(net.layers), x, steps, recompute=False)
        fast = [*hidden.spikes(), out.spikes.detach()]
    source = x.float()
    with torch.no_grad():
        for layer, got in zip(plain.layers, fast, strict=True):
            wanted = layer(source, steps=steps)
            source, steps = got, None
            found["neuron_steps"] += got.numel()
            found["spikes"] += int(got.sum())
            differs = got != wanted.spikes
            flipped = differs.any(0)
            found["flipped_neurons"] += int(flipped.sum())
            if flipped.any():
                first = differs.int().argmax(0, keepdim=True)
                distance = (wanted.membrane - layer.lif.theta).abs().gather(0, first)[0][flipped].max().item()
                found["farthest_from_theta"] = max(found["farthest_from_theta"], distance)
    return found


def networks(runs: list[Path], device: torch.device):
    """Name, network and batch of each."""
    generator = torch.Generator().manual_seed(0)
    for notation, shape, steps, batch, settings in RANDOM:
        net = bitspike.build(notation, shape, slope=0.3, generator=generator, **settings).to(device)
        if steps:
            x = torch.poisson(torch.full((steps, batch, *shape), 0.1), generator=generator).to(torch.uint8)
        else:
            x = torch.rand(batch, *shape, generator=generator)
        yield f"random {notation}", net, [x.to(device)]
    for run in runs:
        from bitspike.data.datasets import open_dataset
        from bitspike.experiments.presets import preset_or_file
        from bitspike.experiments.saved import load_run

        spec = preset_or_file(str(run / "experiment.toml"), [])
        samples = open_dataset(spec.data).test.to(device)
        rows = torch.arange(len(samples), device=device).split(spec.train.batch)[:8]
        yield str(run), load_run(run).to(device), [samples.batch(r)[0] for r in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results = []
    for name, net, batches in networks(arguments.runs, device):
        set_dropout_key(net, torch.tensor(12345, device=device))
        for mode in ("training", "evaluation"):
            net.train(mode == "training")
            total: dict[str, float] = {}
            for x in batches:
                for key, value in compare(net, x).items():
                    total[key] = max(total.get(key, 0.0), value) if key.startswith("far") else total.get(key, 0) + value
            results.append({"network": name, "mode": mode, **total})
            print(
                f"{name:60.60} {mode:10} {total['neuron_steps']:>14,.0f} neuron-steps {total['spikes']:>12,.0f} spikes "
                f"{total['flipped_neurons']:>6.0f} neurons flipped, at most {total['farthest_from_theta']:.1e} from theta"
            )
    if arguments.json:
        where = torch.cuda.get_device_name() if device.type == "cuda" else "Triton's interpreter"
        arguments.json.write_text(json.dumps({"device": where, "torch": torch.__version__, "results": results}, indent=1))


if __name__ == "__main__":
    main()
