"""How many cycles an instruction takes: qemu's trace of a program, with a table of cycles for each kind.

    python benchmarks/microcontroller_cycles.py FOLDER [--flags="-Os"]

FOLDER is one of `bitspike export --to c`; a test vector of a few steps is enough. qemu prints the address of every
instruction that it runs. Each costs about what the technical reference manuals of the Cortex-M0+ and M4 say, with
memory that needs no waiting: a load or store 2 cycles, a taken branch 2 on the M0+ and 3 on the M4 (the
longest is 4), a call 3, a division 12 (of floats 14), several registers 1 and 1 for each; all others 1.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SEVERAL = ("push", "pop", "ldm", "stm", "vpush", "vpop", "vldm", "vstm")
NAMED = {"sl": 10, "fp": 11, "ip": 12, "sp": 13, "lr": 14, "pc": 15}
BRANCH = {"cortex-m0plus": 2, "cortex-m4f": 3}


@dataclass(frozen=True)
class Instruction:
    """A line of the disassembly."""

    name: str
    operands: str
    size: int
    function: str

    def cycles(self, taken: bool, branch: int) -> int:
        """Return the cycles it takes; `taken` if the next instruction is not the one behind it."""
        if self.name.startswith(SEVERAL):
            return 1 + registers(self.operands) + (2 if taken else 0)
        if self.name.startswith(("vdiv", "vsqrt", "udiv", "sdiv")):
            return 14 if self.name[0] == "v" else 12
        if self.name.startswith(("ldr", "str", "vldr", "vstr")):
            return (3 if self.name.startswith(("ldrd", "strd")) else 2) + (branch - 1 if taken else 0)
        if self.name in ("bl", "blx"):
            return 3
        return branch if taken else 1


def registers(operands: str) -> int:
    """Return how many words the registers of a list such as {r4-r7, lr} or {d8} hold."""
    found = re.search(r"\{(.*?)\}", operands)
    many = 0
    for part in found[1].split(",") if found else []:
        first, *rest = (NAMED.get(name.strip()) or int(re.sub(r"\D", "", name)) for name in part.split("-"))
        many += (rest[0] - first + 1 if rest else 1) * (2 if part.strip().startswith("d") else 1)
    return many


def disassembled(program: Path) -> dict[int, Instruction]:
    """Return the instructions of a program, by address."""
    text = subprocess.run(["arm-none-eabi-objdump", "-d", program], capture_output=True, text=True, check=True).stdout
    found, function = {}, ""
    for line in text.splitlines():
        if named := re.match(r"[0-9a-f]+ <(.*)>:", line):
            function = named[1]
        if parts := re.match(r"\s*([0-9a-f]+):\t([0-9a-f ]+?)\s*\t(\S+)\s*(.*)", line):
            size = len(parts[2].replace(" ", "")) // 2
            found[int(parts[1], 16)] = Instruction(parts[3].split(".")[0], parts[4], size, function)
    return found


def traced(program: Path, machine: str) -> Counter[tuple[int, int]]:
    """Return how often each address was followed by which, in qemu."""
    command = ["qemu-system-arm", "-nographic", "-monitor", "none", "-serial", "none", "-M", machine, "-singlestep"]
    command += ["-semihosting-config", "enable=on,target=native", "-d", "exec,nochain", "-D", "/dev/stdout"]
    pairs: Counter[tuple[int, int]] = Counter()
    before = None
    with subprocess.Popen(
        [*command, "-kernel", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as qemu:
        assert qemu.stdout is not None
        for line in qemu.stdout:
            if line.startswith("Trace"):
                address = int(line.split("/")[1], 16)
                if before is not None:
                    pairs[before, address] += 1
                before = address
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--flags", default="-Os")
    args = parser.parse_args()
    for target, machine in (("cortex-m4f", "mps2-an386"), ("cortex-m0plus", "mps2-an385")):
        subprocess.run(["make", "-s", "-C", args.folder, target, f"CFLAGS={args.flags}"], check=True)
        program = args.folder / "build" / f"{target}.elf"
        code = disassembled(program)
        run: Counter[str] = Counter()
        cycles: Counter[str] = Counter()
        for (address, following), times in traced(program, machine).items():
            if instruction := code.get(address):
                taken = following != address + instruction.size
                run[instruction.function] += times
                cycles[instruction.function] += times * instruction.cycles(taken, BRANCH[target])
        print(f"{target}: {run.total():,} instructions, {cycles.total() / run.total():.2f} cycles each")
        for function, times in run.most_common(8):
            print(f"  {times / run.total():6.1%}  {function}: {cycles[function] / times:.2f}")


if __name__ == "__main__":
    main()
