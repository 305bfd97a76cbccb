"""Time of `delay` forward and backward: every backend against the package DCLS, alternating in one process.

    python benchmarks/delays.py [--steps 100 --batch 256 --neurons 256 --longest 25 --width 3] [--json FILE]

All soft rows compute the same output and the same gradients of spikes and delays (checked). DCLS (dilated convolutions
with learnable spacings, `pip install DCLS`) is a depthwise `Dcls1d` with one weight of 1 for each neuron; it takes time
last, and is given its input so: no time is spent on turning. Without the package its row is left out.
Hard rows shift by whole steps and have the gradient of the spikes alone; a depthwise convolution has no such form.
The floor counts bytes and divides by the rate of a copy in the same run: spikes in, output out; then the gradient in,
(soft: the spikes again), the gradient of the spikes out.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from torch import Tensor

import bitspike
from bitspike import delay

Run = tuple[Callable[[], Tensor], Tensor, list[Tensor]]  # the call, the gradient of its output, its leaves


def dcls(spikes: Tensor, delays: Tensor, gradient: Tensor, longest: int, width: float) -> Run | None:
    """Return the peer's soft delay in its own layout, `[B, N, T]`; None if it is not installed."""
    try:
        from DCLS.construct.modules import Dcls1d
    except ImportError:
        return None
    neurons = spikes.shape[2]
    layer = Dcls1d(neurons, neurons, 1, dilated_kernel_size=longest + 1, groups=neurons, bias=False, version="gauss")
    layer = layer.to(spikes.device)
    with torch.no_grad():
        layer.weight.fill_(1)
        layer.P.copy_((longest - delays).view_as(layer.P) - (longest + 1) // 2)
        layer.SIG.fill_(width - 0.27)
    layer.weight.requires_grad_(False)
    layer.SIG.requires_grad_(False)
    layer.DCK.__init_tmp_variables__(spikes.device)
    turned = spikes.detach().permute(1, 2, 0).contiguous().requires_grad_()
    pad = torch.nn.ConstantPad1d((longest, 0), 0.0)
    return lambda: layer(pad(turned)), gradient.permute(1, 2, 0).contiguous(), [turned, layer.P]


def runs(spikes: Tensor, delays: Tensor, gradient: Tensor, longest: int, width: float) -> dict[str, Run]:
    """Return every way to compute that runs here."""
    found: dict[str, Run] = {}
    for kind, how in (("hard", None), ("soft", width)):
        for backend in ("reference", "torch", "c", "triton"):

            def call(backend: str = backend, how: float | None = how) -> Tensor:
                return delay(spikes, delays, longest=longest, width=how, backend=backend)

            try:
                call()
            except ValueError:  # not on this device
                continue
            found[f"{kind}, bitspike {backend}"] = call, gradient, [spikes, *([delays] if how else [])]
    if peer := dcls(spikes, delays, gradient, longest, width):
        found[f"soft, DCLS {version('DCLS')}"] = peer
    return found


def check(outputs: dict[str, list[Tensor]]) -> None:
    """Raise unless all soft runs agree; the peer's gradient of P is that of -delay, and time is its last dimension."""
    output, of_spikes, of_delays = outputs["soft, bitspike reference"]
    for name, (out, grad, *rest) in outputs.items():
        if name.startswith("hard"):
            continue
        if "DCLS" in name:
            out, grad, rest = out.permute(2, 0, 1), grad.permute(2, 0, 1), [-rest[0].flatten()]
        for got, wanted in ((out, output), (grad, of_spikes), (rest[0], of_delays)):
            error = ((got - wanted).abs().max() / wanted.abs().max()).item()
            if error > 2e-5:
                raise RuntimeError(f"{name} differs from the definition by {error:.1e} of the largest")


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def copy_rate(spikes: Tensor) -> float:
    """Return bytes read and written in a second by a copy."""
    target, best = torch.empty_like(spikes), float("inf")
    for _ in range(10):
        began = clock(spikes.device)
        target.copy_(spikes.detach())
        best = min(best, clock(spikes.device) - began)
    return 2 * spikes.numel() * 4 / best


def measure(device: torch.device, args: argparse.Namespace) -> dict[str, object]:
    """Return the times of all runs on a device, in milliseconds."""
    g = torch.Generator().manual_seed(0)
    shape = (args.steps, args.batch, args.neurons)
    spikes = (torch.rand(shape, generator=g) < 0.2).float().to(device).requires_grad_()
    delays = (torch.rand(args.neurons, generator=g) * args.longest).to(device).requires_grad_()
    gradient = torch.randn(shape, generator=g).to(device)
    every = runs(spikes, delays, gradient, args.longest, args.width)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in every}
    outputs: dict[str, list[Tensor]] = {}
    for round_ in range(args.rounds + 2):
        for name, (call, grad, leaves) in every.items():
            for leaf in leaves:
                leaf.grad = None
            began = clock(device)
            out = call()
            middle = clock(device)
            out.backward(grad)
            ended = clock(device)
            if round_ == 0:
                outputs[name] = [out.detach(), *(leaf.grad.clone() for leaf in leaves if leaf.grad is not None)]
            if round_ > 1:  # the first ones warm up
                times[name].append((1e3 * (middle - began), 1e3 * (ended - middle)))
            del out
        if round_ == 0:
            check(outputs)
            outputs.clear()
    rate, size = copy_rate(spikes), spikes.numel() * 4
    return {
        "copy_gb_per_second": round(rate / 1e9, 1),
        "floor_ms": {
            "hard": [round(1e3 * 2 * size / rate, 3), round(1e3 * 2 * size / rate, 3)],
            "soft": [round(1e3 * 2 * size / rate, 3), round(1e3 * 3 * size / rate, 3)],
        },
        "milliseconds": {
            name: {
                "forward": round(statistics.median(f for f, _ in each), 3),
                "backward": round(statistics.median(b for _, b in each), 3),
                "min": round(min(f + b for f, b in each), 3),
                "max": round(max(f + b for f, b in each), 3),
            }
            for name, each in times.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--neurons", type=int, default=256)
    parser.add_argument("--longest", type=int, default=25)
    parser.add_argument("--width", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    report: dict[str, object] = {
        "command": shlex.join(["python", *sys.argv]),
        "shape": [args.steps, args.batch, args.neurons],
        "longest": args.longest,
        "width": args.width,
        "threads": torch.get_num_threads(),
        "versions": {
            "bitspike": bitspike.__version__,
            "DCLS": _installed("DCLS"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    print(f"[T, B, N] = {report['shape']}, delays to {args.longest}, {report['threads']} threads, {report['versions']}")
    for name in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        found = measure(torch.device(name), args)
        report[name] = found
        where = torch.cuda.get_device_name() if name == "cuda" else platform.machine()
        print(f"{name} ({where}); a copy moves {found['copy_gb_per_second']} GB/s; floor {found['floor_ms']} ms")
        for run, row in found["milliseconds"].items():  # type: ignore[attr-defined]
            print(
                f"  {run:28s} {row['forward']:9.2f} ms forward {row['backward']:9.2f} ms backward"
                f"  (both {row['min']:.2f} to {row['max']:.2f})"
            )
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
