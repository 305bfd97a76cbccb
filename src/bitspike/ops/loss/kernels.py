"""The count loss and the cross entropy of scores in Triton: one program for each sample."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["T", "on", "off"])
def _count_loss_kernel(
    spikes, labels, losses, rights, grads, T, size, on, off, scale,
    CLASSES: tl.constexpr, C_BLOCK: tl.constexpr, T_BLOCK: tl.constexpr,
):  # fmt: skip
    """losses = scale * sum of (n - target)**2, grads = 2 * scale * (n - target), rights = 1 or 0, for each sample."""
    b = tl.program_id(0)
    c = tl.arange(0, C_BLOCK)
    size = tl.full([], 0, tl.int64) + size
    total = tl.zeros([T_BLOCK, C_BLOCK], tl.float32)
    for begin in range(0, T, T_BLOCK):
        t = begin + tl.arange(0, T_BLOCK)[:, None]
        at = t * size + b * CLASSES + c[None, :]
        total += tl.load(spikes + at, mask=(t < T) & (c < CLASSES)[None, :], other=0.0)
    count = tl.sum(total, axis=0)
    label = tl.load(labels + b)
    off_by = tl.where(c < CLASSES, count - tl.where(label == c, on, off), 0.0)
    tl.store(grads + b * CLASSES + c, 2.0 * scale * off_by, mask=c < CLASSES)
    tl.store(losses + b, scale * tl.sum(off_by * off_by, axis=0))
    most = tl.max(tl.where(c < CLASSES, count, -1.0), axis=0)
    first = tl.min(tl.where((count == most) & (c < CLASSES), c, C_BLOCK), axis=0)  # of equal ones the first
    tl.store(rights + b, tl.where((first == label) & (most > 0), 1.0, 0.0))  # silence is no answer


@triton.jit
def _entropy_kernel(
    scores, owns, others, shares, losses, rights, grads, scale, smoothing, mean,
    MIXED: tl.constexpr, CLASSES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """losses = -mean * sum of q log softmax(scale * score), its gradient, and rights = 1 or 0, for each sample.

    q is 1 - smoothing in the classes of a sample, by their shares, and beside that smoothing / CLASSES in each.
    """
    b = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    held = c < CLASSES
    score = tl.load(scores + b * CLASSES + c, mask=held, other=-float("inf"))
    own = tl.load(owns + b)
    q = tl.where(c == own, 1.0, 0.0)
    if MIXED:
        share = tl.load(shares + b)
        q = q * (1 - share) + tl.where(c == tl.load(others + b), share, 0.0)
    q = tl.where(held, q * (1 - smoothing) + smoothing / CLASSES, 0.0)
    most = tl.max(score, axis=0)
    logit = tl.where(held, (score - most) * scale, -float("inf"))
    total = tl.sum(tl.exp(logit), axis=0)
    log_p = tl.where(held, logit - tl.log(total), 0.0)
    tl.store(losses + b, -mean * tl.sum(q * log_p, axis=0))
    gradient = mean * scale * (tl.exp(logit) / total * tl.sum(q, axis=0) - q)
    tl.store(grads + b * CLASSES + c, gradient, mask=held)
    first = tl.min(tl.where((score == most) & held, c, BLOCK), axis=0)  # of equal ones the first
    tl.store(rights + b, tl.where(first == own, 1.0, 0.0))
