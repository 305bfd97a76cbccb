"""Compile Triton kernels for a Hopper GPU, without one, and look at their machine code.

Run as a module it prints, for each kernel of ops/product, how many instructions may overwrite what a product in
flight still reads. Triton must not be in interpreter mode.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)\s*(.*?);")
NO_TARGET = ("ST", "RED", "BAR", "LDGSTS", "ISETP", "FSETP", "BRA")


def tool() -> Path:
    """Return the disassembler that comes with Triton."""
    import triton

    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def machine_code(kernel, types: dict[str, str], constants: dict, warps: int, stages: int) -> str:
    """Return a kernel's instructions on compute capability 9.0; all pointers and numbers are multiples of 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in types}
    source = ASTSource(kernel, signature, {(names.index(name),): v for name, v in constants.items()}, attributes)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages})
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        return subprocess.run([tool(), "--dump-sass", file.name], capture_output=True, text=True, check=True).stdout


def overwritten(text: str) -> list[str]:
    """Return instructions that write a register which a product in flight (GMMA) may still read.

    Code is followed straight on; each branch back is taken twice. A product's first operand, if it is in registers, is
    four of them. A wait (DEPBAR) leaves the newest groups of products in flight.
    """
    flying, open_group, found = [], [], set()
    for address, name, arguments in _followed([(int(a, 16), b, c) for a, b, c in INSTRUCTION.findall(text)]):
        read = [registers for group in [*flying, open_group] for registers in group]
        if "GMMA" not in name and any(_written(name, arguments) & registers for registers in read):
            found.add(f"{address:#x} {name} {arguments}")
        if "GMMA" in name:
            operand = re.fullmatch(r"R(\d+)", arguments.split(",")[1].strip())
            open_group.append(set(range(int(operand[1]), int(operand[1]) + 4)) if operand else set())
            if "gsb0" in arguments:
                flying.append(open_group)
                open_group = []
        wait = re.search(r"gsb0, 0x(\w+)", arguments) if name.startswith("WARPGROUP") and "DEPBAR" in name else None
        if wait:
            left = int(wait[1], 16)
            flying = flying[-left:] if left else []
    return sorted(found)


def _followed(code: list[tuple[int, str, str]]):
    at, taken, i = {address: i for i, (address, _, _) in enumerate(code)}, {}, 0
    while i < len(code):
        address, name, arguments = code[i]
        yield code[i]
        target = re.search(r"0x([0-9a-f]+)", arguments) if name.startswith("BRA") else None
        back = int(target[1], 16) if target else address
        i += 1
        if back < address and taken.get(address, 0) < 2 and back in at:
            taken[address] = taken.get(address, 0) + 1
            i = at[back]


def _written(name: str, arguments: str) -> set[int]:
    first = re.fullmatch(r"R(\d+)(?:\.\w+)*", arguments.split(",")[0].strip())
    if not first or name.startswith(NO_TARGET):
        return set()
    if name.startswith("LDSM"):
        count = 4 if ".4" in name else 2 if ".2" in name else 1
    else:
        count = 4 if ".128" in name else 2 if re.search(r"\.64|\.WIDE|^CS2R$|^D(ADD|MUL|FMA)", name) else 1
    return set(range(int(first[1]), int(first[1]) + count))


def kernels():
    """Yield a name and the arguments of `machine_code` for each product, at sizes of FashionMNIST and DVS128."""
    from triton import language as tl

    from bitspike.ops.product import kernels, kernels_backward

    conv = {"ROW": 72, "LINE": 6, "STEP": 1, "RUN": 3, "WORDS": 18, "HEIGHT": 4, "WIDTH": 4, "POOL": 2}
    events = {"ROW": 2048, "LINE": 32, "STEP": 2, "RUN": 1, "WORDS": 3, "HEIGHT": 14, "WIDTH": 14, "POOL": 2}
    none = {"EDGE": False, "LARGE": False, "FLOAT": tl.bfloat16}
    plain = {"BIAS": False, "DIVIDE": False, **none}
    types = {
        "source": "*i32", "offsets": "*i32", "weight": "*bf16", "bias": "*bf16", "out": "*i16", "places": "i32",
        "total": "i32",
    }  # fmt: skip
    wide = {**conv, **plain, "N": 64, "STRIDE_W": 64, "STRIDE_O": 64, "BITS": True, "M_BLOCK": 128, "N_BLOCK": 64}
    few = {**events, **plain, "N": 16, "STRIDE_W": 16, "STRIDE_O": 16, "BITS": False, "M_BLOCK": 128, "N_BLOCK": 16}
    forward, backward = kernels._product_fwd_kernel, kernels_backward._bit_weight_bwd_kernel
    yield "bytes", (forward, {**types, "weight": "*i8"}, {**wide, "WHOLE": True, "G": 2}, 4, 4)
    yield "bits", (forward, types, {**wide, "WHOLE": False, "G": 2}, 4, 3)
    yield "counts", (forward, {**types, "source": "*u8", "out": "*fp32"}, {**few, "WHOLE": False, "G": 2}, 4, 3)
    of_weight = {
        "grad": "*bf16", "bits": "*i32", "out": "*fp32", "bias": "*fp32", "places": "i32", "total": "i32",
        "share": "i32",
    }  # fmt: skip
    for channels, rows, chunks in ((64, 128, 3), (16, 64, 1)):
        sizes = {"N": channels, "STRIDE_G": channels, "M_BLOCK": rows, "N_BLOCK": channels, "G": 2, "CHUNKS": chunks}
        yield f"weights of {channels}", (backward, of_weight, {**conv, **none, **sizes, "SUM": False}, 4, 3)


if __name__ == "__main__":
    codes = {name: machine_code(*arguments) for name, arguments in kernels()}
    json.dump({name: [text.count("GMMA."), len(overwritten(text))] for name, text in codes.items()}, sys.stdout)
