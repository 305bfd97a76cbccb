"""Batch norm of a spiking layer's current, with statistics per time step or shared over time."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bitspike.nn.sharding import Shard
from bitspike.nn.synapses import per_step, require_images
from bitspike.ops.available import fused_on_gpu, transformed
from bitspike.ops.checks import is_ordinary
from bitspike.ops.current import fold_norm as fold
from bitspike.ops.native import library
from bitspike.ops.norm import reference
from bitspike.ops.norm.c import step_norm as step_norm_c
from bitspike.ops.norm.c_across import step_norm_across as step_norm_c_across
from bitspike.ops.norm.reference import Averages, contiguous_norm
from bitspike.ops.norm.torch import step_norm


class _BatchNorm(nn.BatchNorm2d):
    """The base of all batch norms. With a shard, statistics are those of the batch over all processes."""

    shard: Shard | None = None

    def _pytorchs(self, x: Tensor) -> Tensor:
        """Return PyTorch's batch norm of `x`, with time as a part of the batch."""
        forward = super().forward
        return contiguous_norm(lambda images: per_step(forward, images), x)

    def _exchanged(self, x: Tensor, shard: Shard, copies: int = 1) -> Tensor | None:
        """Return what `_across` returns for the statistics of each step, by kernels that exchange less often.

        None if only the plain definition can do it. The answer is the same in every process.
        """
        if not self.affine or not self._averages_fit() or not shard.everywhere or x.dtype != torch.float32:
            return None
        run = exchanging_norm(x)
        if run is None:
            return None
        momentum = 1 - (1 - _number(self.momentum)) ** copies
        averages = Averages(self.running_mean, self.running_var, momentum)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(len(x) * copies)
        return run(x, self.weight, self.bias, averages, self.eps, shard.across)

    def _averages_fit(self) -> bool:
        """Return whether kernels may read the parameters and move the averages: all lie in a row, in float32."""
        parts = (self.weight, self.bias, self.running_mean, self.running_var)
        fit = all(part is None or is_ordinary(part, (self.num_features,), self.weight.device) for part in parts)
        return fit and all(part is None or part.is_contiguous() for part in parts) and _number(self.momentum) < 1

    def _across(self, x: Tensor, shard: Shard, copies: int, folded: tuple[int, ...]) -> Tensor:
        """Normalize `[S, B, C, H, W]` by the mean and variance over `folded`; move the running averages S times.

        If the current is constant in time, each step represents `copies` equal steps.
        """
        count = shard.total * x.shape[3] * x.shape[4] * (x.shape[0] if 0 in folded else 1)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # as F.batch_norm sums
        mean = shard.sum(wide.sum(folded, keepdim=True)) / count
        centered = wide - mean
        variance = shard.sum(centered.square().sum(folded, keepdim=True)) / count
        with torch.no_grad():
            unbiased = variance * (count / max(count - 1, 1))
            for m, v in zip(mean.flatten(1), unbiased.flatten(1), strict=True):
                self._move(m, v, copies)
        scale = self.weight.view(-1, 1, 1) * torch.rsqrt(variance + self.eps)
        return (centered * scale + self.bias.view(-1, 1, 1)).to(x.dtype)

    def _over_time(self, x: Tensor) -> Tensor:
        """Normalize `[T, B, C, H, W]` or `[B, C, H, W]` by one mean and variance over all but the channels."""
        if self.shard is not None and self.training:
            whole = x if x.dim() == 5 else x[None]
            if self.momentum is not None:
                # one step of a batch that is T times as large
                out = self._exchanged(whole.flatten(0, 1)[None], self.shard)
                if out is not None:
                    return out.view_as(x)
            return self._across(whole, self.shard, 1, (0, 1, 3, 4)).view_as(x)
        return self._pytorchs(x)

    def _move(self, mean: Tensor, variance: Tensor, copies: int) -> None:
        momentum = 1 - (1 - _number(self.momentum)) ** copies
        for running, now in ((self.running_mean, mean), (self.running_var, variance)):
            if running is not None:
                running.lerp_(now.to(running.dtype), momentum)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(copies)


class StepBatchNorm2d(_BatchNorm):
    """Batch norm of `[T, B, C, H, W]` with the statistics of each step's minibatch, as the released code calls it.

    The running averages move T times an iteration. A current that is constant in time, `[B, C, H, W]` with
    `steps=T`, has the same statistics at every step: T updates at once are one with momentum 1 - (1 - m)**T.
    All steps are normalized at once: on the CPU by C code with the same bits and gradients to 1e-6, on a GPU with sums
    in another order, so everything to 1e-6. `plain=True` is the definition, T calls of F.batch_norm.

    Examples:
        >>> import torch
        >>> from bitspike.nn import StepBatchNorm2d
        >>> norm = StepBatchNorm2d(3)
        >>> out = norm(torch.rand(10, 4, 3, 8, 8))  # [T, B, C, H, W]
        >>> bool((out.mean((1, 3, 4)).abs() < 1e-5).all())  # the mean of each step and channel is 0
        True
    """

    def forward(self, x: Tensor, steps: int = 1, *, plain: bool = False) -> Tensor:
        require_images("StepBatchNorm2d", x, self.num_features)
        momentum = _number(self.momentum)
        if not self.training and self.track_running_stats:
            return self._pytorchs(x)
        if self.shard is not None:
            whole, copies = (x, 1) if x.dim() == 5 else (x[None], steps)
            out = None if plain else self._exchanged(whole, self.shard, copies)
            return (self._across(whole, self.shard, copies, (1, 3, 4)) if out is None else out).view_as(x)
        averages = Averages(self.running_mean, self.running_var, momentum)
        count = self.num_batches_tracked
        if x.dim() == 4:
            moved = averages._replace(momentum=1 - (1 - momentum) ** steps)
            return reference.image_norm(x, self.weight, self.bias, moved, self.eps, count, steps)
        if not plain and (out := self._at_once(x, averages)) is not None:
            if count is not None:
                count.add_(len(x))
            return out
        return reference.step_norm(x, self.weight, self.bias, averages, self.eps, count)

    def _at_once(self, x: Tensor, averages: Averages) -> Tensor | None:
        """Return all steps normalized in one call; None if only the plain definition can do it, or report an error.

        Kernels write only averages that are contiguous in memory.
        """
        if not self.affine or transformed() or not all(a is None or a.is_contiguous() for a in averages[:2]):
            return None
        if library.usable(x):
            parts = (self.weight, self.bias, self.running_mean, self.running_var)
            if all(part is None or is_ordinary(part, (self.num_features,), x.device) for part in parts):
                return step_norm_c(x, self.weight, self.bias, averages, self.eps)
        elif _parallel(x) and x[0].numel() > self.num_features:
            return step_norm(x, self.weight, self.bias, averages, self.eps)
        return None


class SharedBatchNorm2d(_BatchNorm):
    """Batch norm of `[T, B, C, H, W]` with one set of statistics over batch and time: a different model.

    A current that is constant in time has the same mean and variance as its T copies; only the running variance's
    correction for the sample size, n / (n - 1), is that of one copy.

    Examples:
        >>> import torch
        >>> from bitspike.nn import SharedBatchNorm2d
        >>> norm = SharedBatchNorm2d(3)
        >>> out = norm(torch.rand(10, 4, 3, 8, 8))  # [T, B, C, H, W]
        >>> out.shape
        torch.Size([10, 4, 3, 8, 8])
        >>> bool(out.mean().abs() < 1e-5)
        True
    """

    def forward(self, x: Tensor, steps: int = 1) -> Tensor:
        require_images("SharedBatchNorm2d", x, self.num_features)
        return self._over_time(x)


class SharedBatchNorm1d(_BatchNorm):
    """Batch norm of a Dense layer's current `[T, B, N]`, with one set of statistics over batch and time.

    The running averages move once a call. A current that is constant in time is `[B, N]`; see SharedBatchNorm2d.

    Examples:
        >>> import torch
        >>> from bitspike.nn import SharedBatchNorm1d
        >>> norm = SharedBatchNorm1d(3)
        >>> out = norm(torch.rand(10, 4, 3))  # [T, B, N]
        >>> bool((out.mean((0, 1)).abs() < 1e-5).all())  # the mean of each neuron is 0
        True
    """

    def forward(self, x: Tensor, steps: int = 1) -> Tensor:
        n = self.num_features
        if x.dim() not in (2, 3) or x.shape[-1] != n:
            raise ValueError(f"SharedBatchNorm1d: input must be [B, {n}] or [T, B, {n}], but has shape {list(x.shape)}")
        images = x[..., None, None]  # of one pixel, which PyTorch's CPU code takes four times as fast as rows
        if (
            images.numel() == n and self.training and self.shard is None
        ):  # one value has no variance, and PyTorch refuses it: two equal ones
            return self._over_time(images.expand(2, *images.shape[1:]))[:1].view_as(x)
        if _as_rows(x) and (self.shard is None or not self.training):
            return self._pytorchs(x)
        return self._over_time(images).view_as(x)

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept rows as well as images; `forward` has checked the shape."""


def fold_norm(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Return scale and offset `[C]`, float32, that a batch norm with running averages is in evaluation mode.

    Examples:
        >>> import torch
        >>> from bitspike.nn import StepBatchNorm2d
        >>> from bitspike.nn.norm import fold_norm
        >>> norm = StepBatchNorm2d(1, eps=0.0).eval()
        >>> _, _ = norm.running_mean.fill_(3.0), norm.running_var.fill_(4.0)
        >>> scale, offset = fold_norm(norm)
        >>> scale.item(), offset.item()
        (0.5, -1.5)
    """
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("fold_norm: the batch norm must keep running averages, but has none")
    return fold(norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps)


def exchanging_norm(x: Tensor) -> Callable[..., Tensor] | None:
    """Return the kernels that normalize a batch of several processes on x's device; None if there are none."""
    if (os.environ.get("BITSPIKE_BACKEND") or "auto") != "auto" or transformed():
        return None
    if torch.is_autocast_enabled(x.device.type):
        return None
    if x.device.type == "cpu":
        return step_norm_c_across if library.library() is not None else None
    if not fused_on_gpu(x.device):
        return None
    from bitspike.ops.norm.triton_across import step_norm_across

    return step_norm_across


def _parallel(x: Tensor) -> bool:
    """Return whether one call for all steps is faster than one call for each step, on a device without C code."""
    return x.is_cuda


def _as_rows(x: Tensor) -> bool:
    """Return whether rows are faster than images of one pixel: on a GPU, where cuDNN takes images, and slowly."""
    return x.is_cuda


def _number(momentum: float | None) -> float:
    if momentum is None:
        raise ValueError("StepBatchNorm2d: momentum must be a number, but is None")
    return momentum
