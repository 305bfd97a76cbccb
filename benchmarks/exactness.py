"""Do fused kernels spike as the plain definition does? Counted on a GPU, on networks of the paper and random ones.

    python benchmarks/exactness.py [RUN ...] [--json FILE]

Every layer gets the very spikes that the fused layer before it gave, once fused and once by the reference (float32,
step by step), in training mode and in evaluation. RUN is a folder of `bitspike train`; its test samples are used.
Where batch statistics are summed in another order a membrane may come out a little different, so that a spike flips:
for each neuron whose train of spikes differs, the first difference is looked at, and how far from theta the membrane
was (more than 1e-4 fails). Gradients of the count loss are compared with those of the plain modules in float32.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from pathlib import Path

import torch
from torch import Tensor

import bitspike
from bitspike.nn import SpikingNetwork
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.fast import triton as fused

RANDOM = [  # notation, input, steps (0: a static image), batch, settings
    ("7Conv3-AP2-13Conv3-AP2-52Dense10", (1, 16, 16), 0, 5, {"norm": "step", "theta": [0.6, 0.8, 1.5]}),
    ("5Conv4-AP3-9Conv3-81Dense7", (3, 18, 18), 11, 1, {"theta": [3.0, 2.0, 4.0]}),
    ("16Conv5-AP2-64Conv5-AP2-1024Dense10", (1, 28, 28), 0, 128, {"norm": "shared", "theta": 1.0, "dropout": 0.5}),
    ("701Dense333Dense19", (701,), 1, 3, {"theta": 5.0, "dropout": 0.2}),
    ("100Dense999Dense77Dense3", (100,), 257, 17, {"theta": [4.0, 9.0, 5.0], "beta": 0.95}),
]


def compare(net: SpikingNetwork, x: Tensor) -> dict[str, float]:
    """Compare the spikes of fused kernels with the reference's, layer by layer, as the module says."""
    plain = copy.deepcopy(net)
    for layer in plain.layers:
        layer.lif.backend = "reference"
    found = {"neuron_steps": 0, "spikes": 0, "flipped_neurons": 0, "farthest_from_theta": 0.0}
    steps = net._steps(x, None)
    with torch.set_grad_enabled(net.training):
        if reason := net.unfused(x):
            raise SystemExit(f"exactness: not fused: {reason}")
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


def gradients(net: SpikingNetwork, x: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the largest relative error of a parameter's gradient, and the slope of fused gradients on plain ones.

    All parameters weigh alike in the slope; it is 1 if rounding has no bias.
    """
    plain = copy.deepcopy(net)
    for layer in plain.layers:
        layer.lif.backend = "torch"
    for each in (net, plain):
        each.zero_grad()
        bitspike.count_loss(each(x).spikes, labels).backward()
    pairs = [(p.grad.double(), q.grad.double()) for p, q in zip(net.parameters(), plain.parameters(), strict=True)]
    worst = max(((p - q).norm() / q.norm().clamp(min=1e-30)).item() for p, q in pairs)
    scaled = [(p / q.norm().clamp(min=1e-30), q / q.norm().clamp(min=1e-30)) for p, q in pairs]
    slope = sum((p * q).sum() for p, q in scaled) / sum((q * q).sum() for _, q in scaled)
    net.zero_grad()
    return {"worst_gradient_error": worst, "gradient_slope": slope.item()}


def networks(runs: list[Path], device: torch.device):
    """Yield the name, the network and a batch of each case."""
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


def _line(name: str, mode: str, total: dict[str, float]) -> str:
    line = (
        f"{name:45.45} {mode:10} {total['neuron_steps']:>13,.0f} neuron-steps, {total['spikes']:>11,.0f} spikes: "
        f"{total['flipped_neurons']:.0f} neurons differ, first within {total['farthest_from_theta']:.1e} of theta"
    )
    if "gradient_slope" in total:
        line += f"; gradients {total['worst_gradient_error']:.1e}, slope {total['gradient_slope']:.5f}"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("exactness: needs a GPU; the tests compare small networks in Triton's interpreter")
    device = torch.device("cuda")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # of the plain modules
    results = []
    for name, net, batches in networks(arguments.runs, device):
        set_dropout_key(net, torch.tensor(12345, device=device))
        for mode in ("training", "evaluation"):
            net.train(mode == "training")
            total: dict[str, float] = {}
            for x in batches:
                for key, value in compare(net, x).items():
                    total[key] = max(total.get(key, 0.0), value) if key.startswith("far") else total.get(key, 0) + value
            if mode == "training":
                size = net.layers[-1].synapse.out_features
                steps = 1 if x.dtype == torch.uint8 or x.dim() > len(net.input_shape) + 1 else 0
                total |= gradients(net, x, torch.arange(x.shape[steps], device=device) % size)
            results.append({"network": name, "mode": mode, **total})
            print(_line(name, mode, total))
    if arguments.json:
        made = {"command": " ".join(sys.argv), "device": torch.cuda.get_device_name(), "torch": torch.__version__}
        arguments.json.write_text(json.dumps({**made, "results": results}, indent=1))
    if any(result["farthest_from_theta"] > 1e-4 for result in results):
        raise SystemExit("exactness: a spike differs whose membrane was more than 1e-4 from theta")


if __name__ == "__main__":
    main()
