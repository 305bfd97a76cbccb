"""Time of the cochlear model against lauscher, the authors' own code, on one core, in one process.

    python benchmarks/cochlea_speed.py [--seconds 1 --lauscher-seconds 0.1] [--json FILE]

Both hear noise that comes and goes. Lauscher takes minutes for a second of sound, so it hears a shorter piece; its time
is in proportion to the length. The time is the processor's for this process and its children, so that other programs do
not count. Needs `pip install lauscher`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from lauscher.audiowaves import MonoAudioWave
from lauscher.helpers import CommandLineArguments
from lauscher.transformations.wave2spike import Wave2Spike

import bitspike
from bitspike.data import Sound, encode_speech
from bitspike.ops.native.library import library

RATE = 48000


def noise(seconds: float) -> np.ndarray:
    samples = np.random.default_rng(0).standard_normal(round(seconds * RATE))
    return samples * (0.2 + np.sin(2 * np.pi * 4 * np.arange(len(samples)) / RATE) ** 2)


def timed(call: Callable[[], int]) -> tuple[float, int]:
    began = sum(os.times()[:4])
    spikes = call()
    return sum(os.times()[:4]) - began, spikes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--lauscher-seconds", type=float, default=0.1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    CommandLineArguments().num_concurrent_jobs = 1

    def ours(seconds: float) -> Callable[[], int]:
        return lambda: len(encode_speech(Sound(noise(seconds), RATE)))

    def theirs(seconds: float) -> int:
        spikes = Wave2Spike(num_channels=700)(MonoAudioWave(noise(seconds), RATE))
        return len(spikes.spike_times)

    first, _ = timed(ours(args.seconds))
    again, spikes = timed(ours(args.seconds))
    peer, peer_spikes = timed(lambda: theirs(args.lauscher_seconds))
    _, same_piece = timed(ours(args.lauscher_seconds))
    ratio = peer / args.lauscher_seconds / (again / args.seconds)
    report = {
        "command": shlex.join(["python", *sys.argv]),
        "machine": f"{platform.machine()}, one thread",
        "versions": {
            "bitspike": bitspike.__version__,
            "lauscher": version("lauscher"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "compiled": library() is not None,
        "seconds_a_second_of_sound": {
            "bitspike, the first time": round(first / args.seconds, 3),
            "bitspike": round(again / args.seconds, 3),
            "lauscher": round(peer / args.lauscher_seconds, 1),
        },
        "lauscher_over_bitspike": round(ratio),
        "spikes": {"bitspike": spikes, "same piece, bitspike": same_piece, "same piece, lauscher": peer_spikes},
    }
    print(json.dumps(report, indent=1))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
