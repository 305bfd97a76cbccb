"""Short runs of every kind, written down as digests: two versions of the code are alike if these files are.

    python benchmarks/golden_runs.py run --out before.json --device cpu --data FOLDER
    python benchmarks/golden_runs.py compare before.json after.json

FOLDER gets (or has) small own-data files drawn from a seed, so that nothing need be downloaded. Timings, versions and
memory are left out; everything else that a run writes counts to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TIMES = ("timing", "seconds", "test_seconds", "peak_memory_mb", "versions", "command", "together_since", "teacher")
IMAGES = ["data.name=none", "data.kind=images", "data.file={data}/images.npz"]
UNITS = ["data.name=none", "data.kind=events", "data.time_unit=us", "data.file={data}/units.npz", "data.sensor=[700]"]
PIXELS = ["data.name=none", "data.kind=events", "data.time_unit=us", "data.file={data}/pixels.npz"]

# name: (preset, one list of settings for each call; the second and later calls resume)
RUNS: dict[str, tuple[str, list[list[str]]]] = {
    "mnist-annealed": ("mnist/annealed", [[*IMAGES, "train.epochs=2", "net.steps=20"]]),
    "mnist-best": ("mnist/best", [[*IMAGES, "train.epochs=2", "net.steps=10", "train.recalibrate=100"]]),
    "fashion-resumed": (
        "fashion/annealed",
        [[*IMAGES, "net.steps=20", "net.norm=shared", f"train.epochs={epochs}"] for epochs in (1, 2)],
    ),
    "fashion-float32": ("fashion/float32", [[*IMAGES, "train.epochs=1", "net.steps=10"]]),
    "fashion-best": ("fashion/best", [[*IMAGES, "train.epochs=2", "net.steps=18", "train.recalibrate=100"]]),
    "fashion-clips": (
        "fashion/theta1",
        [[*IMAGES, "train.epochs=1", "net.steps=10", "train.optimizer=adamw", "train.latent_clip=0.5"]],
    ),
    "shd-annealed": ("shd/annealed", [[*UNITS, "train.epochs=2", "data.steps=60", "data.bin_ms=15"]]),
    "shd-recurrent": (
        "shd/fixed",
        [
            [
                *UNITS,
                "train.epochs=1",
                "data.steps=40",
                "data.bin_ms=20",
                "net.recurrent=true",
                "net.learn_beta=true",
                "net.notation=700Dense120Dense20",
                "net.theta=10",
                "net.slope=25",
            ]
        ],
    ),
    "dvs-step-norm": (
        "dvs128/annealed",
        [
            [
                *PIXELS,
                "net.notation=8Conv5-AP2-8Conv5-AP2-200Dense11",
                "data.downsample=none",
                "data.polarity=none",
                "data.test_steps=none",
                "train.epochs=1",
                "data.steps=30",
                "data.bin_ms=30",
                "net.norm=step",
            ]
        ],
    ),
    "coding": ("coding/annealed", [["train.epochs=3"]]),
}


def write_data(folder: Path, seed: int = 0) -> None:
    """Images, events of units and events of pixels whose classes can be told apart."""
    if (folder / "pixels.npz").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    shapes = rng.random((10, 28, 28)) ** 3
    y = rng.integers(0, 10, 600)
    x = np.clip(shapes[y] * 255 * rng.uniform(0.5, 1.2, (600, 1, 1)) + rng.normal(0, 20, (600, 28, 28)), 0, 255)
    np.savez_compressed(folder / "images.npz", images=x.astype(np.uint8), labels=y)
    y = rng.integers(0, 20, 300)
    counts = rng.integers(300, 900, 300)
    t = np.concatenate([np.sort(rng.integers(0, 900_000, n)) for n in counts])
    unit = np.concatenate([(rng.normal(35 * k + 10, 40, n).astype(int)) % 700 for k, n in zip(y, counts, strict=True)])
    offsets = np.concatenate(([0], counts.cumsum()))
    np.savez_compressed(folder / "units.npz", t=t, x=unit, offsets=offsets, labels=y)
    y = rng.integers(0, 11, 120)
    counts = rng.integers(500, 1500, 120)
    t = np.concatenate([np.sort(rng.integers(0, 900_000, n)) for n in counts])
    px = np.concatenate([(rng.normal(3 * k, 4, n).astype(int)) % 34 for k, n in zip(y, counts, strict=True)])
    py, p = rng.integers(0, 34, len(t)), rng.integers(0, 2, len(t))
    offsets = np.concatenate(([0], counts.cumsum()))
    np.savez_compressed(folder / "pixels.npz", t=t, x=px, y=py, p=p, offsets=offsets, labels=y)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def without_times(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_times(held) for key, held in value.items() if key not in TIMES}
    return value


def read_run(folder: Path) -> dict[str, object]:
    from safetensors.numpy import load_file

    rows = [without_times(json.loads(line)) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    summary = {key: without_times(value) for key, value in summary.items() if key not in TIMES}
    for key in ("unlike_preset", "results_sha256"):  # names the data's place; is of the whole file
        summary.pop(key, None)
    weights = {
        key: digest(np.ascontiguousarray(value).tobytes())
        for key, value in load_file(folder / "best.safetensors").items()
    }
    return {"metrics": rows, "summary": summary, "weights": weights}


def run(out: Path, device: str, data: Path, only: list[str]) -> None:
    write_data(data)
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as work:
        for name in only or RUNS:
            preset, calls = RUNS[name]
            for settings in calls:
                command = [sys.executable, "-m", "bitspike", "train", preset, "--out", f"{work}/{name}"]
                command += ["--device", device, "--resume"]
                for setting in [*settings, "train.tensorboard=false"]:
                    command += ["--set", setting.format(data=data.resolve())]
                done = subprocess.run(
                    command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
                )
                if done.returncode:
                    sys.exit(f"{name}: {' '.join(command)}\n{done.stderr[-2000:]}")
            found[name] = read_run(Path(work) / name)
            print(name, found[name]["summary"]["accuracy"], found[name]["summary"]["graph"], flush=True)
    out.write_text(json.dumps(found, indent=1, sort_keys=True))


def unlike(a: object, b: object, at: str = "") -> list[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        return [line for key in sorted({*a, *b}) for line in unlike(a.get(key), b.get(key), f"{at}/{key}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [line for i, pair in enumerate(zip(a, b, strict=True)) for line in unlike(*pair, f"{at}/{i}")]
    return [] if a == b else [f"{at}: {a!r} is now {b!r}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("run")
    make.add_argument("--out", type=Path, required=True)
    make.add_argument("--device", default="cpu")
    make.add_argument("--data", type=Path, default=Path("runs/golden"))
    make.add_argument("--only", nargs="*", default=[], choices=[*RUNS])
    both = commands.add_parser("compare")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        run(given.out, given.device, given.data, given.only)
        return
    lines = unlike(json.loads(given.before.read_text()), json.loads(given.after.read_text()))
    print("\n".join(lines) or "alike to the last bit")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
