"""What exported networks need on a Cortex-M4F and a Cortex-M0+: flash, RAM, instructions; and compilers that take them.

    python benchmarks/microcontroller.py [NETWORK ...] [--flags="-O2"] [--json FILE]

It needs make and arm-none-eabi-gcc with newlib, and qemu-system-arm to count instructions; clang for the compilers.
What is not installed is skipped, and said. qemu runs with -icount: each instruction takes 1 ns of its clock, and the
processor's timer reads that clock (40 ns a tick on the mps2 boards, 62.5 ns on the microbit). Inputs are drawn, as many
not 0 as in the data set on average or a few more. Times are those of CYCLES for each instruction at the MHz of TARGETS.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import bitspike
from bitspike.deploy.c_export import write_c
from bitspike.deploy.c_source.plain_vector import plain_vector
from bitspike.deploy.describe import describe
from bitspike.deploy.model import InputModel
from bitspike.deploy.packing.vector import VectorKind
from bitspike.nn import SpikingNetwork

RESULTS = Path(__file__).parents[1] / "results"
CYCLES = 2.0  # for an instruction: loads and taken branches take 2 or 3, the others 1
TICK_NS = {"mps2-an386": 40.0, "mps2-an385": 40.0, "microbit": 62.5}  # 25 MHz, 25 MHz, 16 MHz
TARGETS = {"cortex-m4f": 64, "cortex-m0plus": 48}  # MHz: those of an nRF52832 and a SAM D21
STRICT = "-std=c99 -Wall -Wextra -Werror -pedantic"
SANITIZED = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
FLAGS = ["-Os", "-O2", "-Os -DBS_FIXED"]
SPEECH = InputModel("events", bin_us=10_000, steps=100)
CAMERA = InputModel("events", bin_us=10_000, steps=31)
PIXELS = InputModel("image")


@dataclass(frozen=True)
class Case:
    """A network to export: of 256 inputs `density` are not 0 on average, and no count is larger than `most`."""

    net: Callable[[], SpikingNetwork]
    input: InputModel
    density: int
    most: int | None = None


@dataclass
class Figures:
    """What one build of one network takes: bytes, and instructions (0 without qemu)."""

    network: str
    target: str
    flags: str
    model: int = 0
    runtime: int = 0
    libraries: int = 0  # arithmetic that the processor has not, and memcpy
    state: int = 0
    stack: int = 0
    steps: int = 0
    shown: float = 0  # instructions of all glances at an image, before the steps
    step: float = 0  # instructions, on average
    longest: float = 0
    machine: str = ""

    @property
    def flash(self) -> int:
        return self.model + self.runtime + self.libraries

    @property
    def ram(self) -> int:
        return self.state + self.stack

    def milliseconds(self, instructions: float) -> float:
        return instructions * CYCLES / TARGETS[self.target] / 1000


def trained(*folder: str) -> Callable[[], SpikingNetwork]:
    """Return a function that gives the network of a run in results/."""
    return lambda: bitspike.load_run(RESULTS.joinpath(*folder))


# SHD's test set in 10 ms bins of 140 inputs: 27.8 binary digits of counts are 1 in a step on average, at most 193, and
# no count is above 22. 64 of 256 are 35 of 140 inputs; 256 are all. In nmnist-small's test set 83 of 2,312 inputs have
# an event in a step, and no count is above 6; 10 of 256 are 90.
CASES = {
    "shd/small": Case(trained("shd-small"), SPEECH, 64, most=31),
    "shd/small, all inputs": Case(trained("shd-small"), SPEECH, 256, most=31),
    "shd/best": Case(trained("shd-best"), SPEECH, 64, most=31),
    "nmnist-small/best": Case(trained("nmnist-small-best"), CAMERA, 10, most=7),
    "mnist/best": Case(trained("best", "mnist"), PIXELS, 48),
    "fashion/best": Case(trained("best", "fashion"), PIXELS, 128),
}


def export(case: Case, folder: Path) -> None:
    """Write a network as C, with a test vector of a whole sample."""
    model = describe(case.net(), input=case.input)
    steps = case.input.steps or model.steps // model.glances
    kind: VectorKind = "pixels" if case.input.kind == "image" else "spikes"
    vector = plain_vector(model, density=case.density, steps=steps, kind=kind)
    write_c(model, folder, vector, most_events=case.most)


def make(folder: Path, *arguments: str) -> str:
    """Return the output of make, or raise with it."""
    ran = subprocess.run(["make", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"make {' '.join(arguments)} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def measure(name: str, folder: Path, target: str, flags: str) -> Figures:
    """Build a folder for a target, and run it in qemu."""
    found = Figures(name, target, flags)
    make(folder, target, f"CFLAGS={flags}")
    for part, size in flash_of(folder / "build" / f"{target}.elf.map").items():
        setattr(found, part, size)
    header = (folder / "model.h").read_text()
    found.state = 8 * int(re.findall(r"MODEL_STATE_WORDS (\d+)u", header)[-1])
    if shutil.which("qemu-system-arm"):
        run_in_qemu(found, make(folder, f"qemu-{target.removeprefix('cortex-')}", f"CFLAGS={flags}"))
    return found


def run_in_qemu(found: Figures, output: str) -> None:
    """Take machine, instructions and stack from what the board has written."""
    found.machine = re.findall(r"-M (\S+)", output)[-1]
    numbers = {what: list(map(int, re.findall(r"\d+", line))) for what, line in re.findall(r"(\w+): (.*)", output)}
    tick = TICK_NS[found.machine]
    found.shown = numbers["shown"][1] * tick
    found.steps, ticks, longest = numbers["steps"]
    found.step, found.longest = ticks * tick / found.steps, longest * tick
    (found.stack,) = numbers["stack"]


def flash_of(linker_map: Path) -> dict[str, int]:
    """Return the bytes in flash of model, runtime and libraries, by the linker's map; the test program is left out."""
    text = linker_map.read_text().split("Linker script and memory map")[1]
    sizes = dict.fromkeys(("model", "runtime", "libraries"), 0)
    for section, size, file in re.findall(r"^ (\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S.*)$", text, re.MULTILINE):
        if section.split(".")[1] in ("text", "rodata", "data"):
            part = "libraries" if ".a(" in file else Path(file).stem
            if part in sizes:
                sizes[part] += int(size, 16)
    return sizes


def try_compilers(name: str, folder: Path) -> list[str]:
    """Run `make check` with every compiler, strictly and under the sanitizers; return what passed."""
    passed = []
    for compiler in ("gcc", "clang"):
        if not shutil.which(compiler):
            print(f"skipped: {compiler} is not installed")
            continue
        for flags in (f"-O2 {STRICT}", f"-O2 {STRICT} -DBS_PORTABLE", f"{SANITIZED} {STRICT}"):
            make(folder, "check", f"CC={compiler}", f"CFLAGS={flags}")
            passed.append(f"{compiler} {flags}")
            print(f"{name}: {passed[-1]}: ok", flush=True)
    return passed


def version(tool: str) -> str:
    """Return the first line of what a tool says about itself."""
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def print_table(rows: list[Figures]) -> None:
    """Print the figures as a Markdown table."""
    names = "network, target, flags, model, code, libraries, state, stack, all, steps, instructions a step, longest"
    print(f"\n| {names.replace(', ', ' | ')} | ms a step | ms in all |")
    print("|---|---|---|" + "--:|" * 11)
    for row in rows:
        total = row.shown + row.steps * row.step
        print(
            f"| {row.network} | {row.target} | {row.flags} | {row.model:,} | {row.runtime:,} | {row.libraries:,} "
            f"| {row.state:,} | {row.stack:,} | {row.flash + row.ram:,} | {row.steps} | {row.step:,.0f} "
            f"| {row.longest:,.0f} | {row.milliseconds(row.step):.2f} | {row.milliseconds(total):,.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--flags", action="append", help="of the compiler; may be repeated (default: FLAGS)")
    parser.add_argument("--compilers", action="store_true", help="also try gcc and clang on this machine")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    arm = shutil.which("arm-none-eabi-gcc")
    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed")
    rows, passed = [], {}
    for name in args.networks or CASES:
        with tempfile.TemporaryDirectory() as folder:
            export(CASES[name], Path(folder))
            if args.compilers:
                passed[name] = try_compilers(name, Path(folder))
            for target in TARGETS if arm else ():
                rows += [measure(name, Path(folder), target, flags) for flags in args.flags or FLAGS]
                print(rows[-1], flush=True)
    print_table(rows)
    if args.json:
        content = {
            "command": f"python {' '.join(sys.argv)}",
            "gcc": version("arm-none-eabi-gcc") if arm else None,
            "qemu": version("qemu-system-arm") if shutil.which("qemu-system-arm") else None,
            "cycles": CYCLES,
            "mhz": TARGETS,
            "rows": [asdict(row) for row in rows],
            "compilers": passed,
        }
        args.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
