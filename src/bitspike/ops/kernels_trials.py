"""The trial dimension of Triton kernels: a program's trial, and the trial's own tensors by their addresses."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit
def _trial(trials):
    """Return the program's trial, and its place on the first axis among the programs of that trial."""
    each = tl.num_programs(0) // trials
    return (tl.program_id(0) // each).to(tl.int64), tl.program_id(0) % each


@triton.jit
def _at(addresses, trial, KIND: tl.constexpr):
    """Return a pointer to the trial's tensor."""
    return tl.load(addresses + trial).to(tl.pointer_type(KIND))
