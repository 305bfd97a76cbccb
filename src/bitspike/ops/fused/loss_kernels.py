"""The count loss in Triton."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["T", "on", "off"])
def _count_loss_kernel(
    spikes, labels, losses, grads, T, size, on, off, scale,
    CLASSES: tl.constexpr, T_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """losses[program] = scale * sum of (n - target)**2 over its samples; grads = 2 * scale * (n - target)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    size = tl.full([], 0, tl.int64) + size
    total = tl.zeros([T_BLOCK, BLOCK], tl.float32)
    for begin in range(0, T, T_BLOCK):
        t = begin + tl.arange(0, T_BLOCK)[:, None]
        total += tl.load(spikes + t * size + i[None, :], mask=(t < T) & (i < size)[None, :], other=0.0)
    count = tl.sum(total, axis=0)
    label = tl.load(labels + i // CLASSES, mask=i < size, other=0)
    off_by = tl.where(i < size, count - tl.where(label == i % CLASSES, on, off), 0.0)
    tl.store(grads + i, 2.0 * scale * off_by, mask=i < size)
    tl.store(losses + tl.program_id(0), scale * tl.sum(off_by * off_by, axis=0))
