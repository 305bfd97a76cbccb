"""Batch norms of a batch that lies in several processes against those of one process."""

import pytest
import torch

from bitspike.nn import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.sharding import Shard, set_shard
from bitspike.ops.native.library import library
from bitspike.ops.norm.across import Across
from bitspike.ops.norm.reference import Averages
from helpers.ranks import Ranks

needs_c = pytest.mark.skipif(library() is None, reason="needs the compiled kernels")
ROWS, CHANNELS = 6, 5
IMAGES, DENSE = (7, ROWS, CHANNELS, 4, 3), (7, ROWS, CHANNELS)


def draws(*shape, seed=0, whole=False):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 9 + 2
    return x.round() if whole else x


def made(kind):
    norm = kind(CHANNELS)
    with torch.no_grad():
        norm.weight.copy_(draws(CHANNELS, seed=1).abs() / 9 + 0.5)
        norm.bias.copy_(draws(CHANNELS, seed=2) / 9)
    return norm


def across(kind, x, towards, size):
    """Return the outputs and gradients of x of `size` processes, joined; their norms; and what they exchanged."""
    ranks, norms = Ranks(size), [made(kind) for _ in range(size)]
    shards = ranks.shards(ROWS)
    dim = 0 if x.dim() == 4 else 1

    def body(rank):
        rows = shards[rank].stop - shards[rank].start
        set_shard(norms[rank], shards[rank])
        mine = x.narrow(dim, shards[rank].start, rows).clone().requires_grad_()
        out = norms[rank](mine, 4)
        (out * towards.narrow(dim, shards[rank].start, rows)).sum().backward()
        return out.detach(), mine.grad

    found = ranks.run(body)
    return *(torch.cat(parts, dim) for parts in zip(*found, strict=True)), norms, ranks.messages


@needs_c
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (StepBatchNorm2d, IMAGES),
        (StepBatchNorm2d, IMAGES[1:]),
        (SharedBatchNorm2d, IMAGES),
        (SharedBatchNorm2d, IMAGES[1:]),
        (SharedBatchNorm1d, DENSE),
    ],
)
def test_in_c_it_is_the_norm_of_one_process(kind, shape, whole, size):
    x, towards = draws(*shape, seed=3, whole=whole), draws(*shape, seed=4)
    alone, given = made(kind), x.clone().requires_grad_()
    wanted = alone(given, 4)
    (wanted * towards).sum().backward()
    out, grad, norms, messages = across(kind, x, towards, size)
    if kind is SharedBatchNorm1d:  # PyTorch adds such rows up in float32
        torch.testing.assert_close(out, wanted, rtol=1e-6, atol=1e-6)
    else:
        assert torch.equal(out, wanted)
    torch.testing.assert_close(grad, given.grad, rtol=1e-5, atol=1e-5)
    for name, p in alone.named_parameters():
        total = sum(norm.get_parameter(name).grad for norm in norms)
        torch.testing.assert_close(total, p.grad, rtol=1e-5, atol=1e-4)
    for norm in norms:
        for name, buffer in alone.named_buffers():
            torch.testing.assert_close(norm.get_buffer(name), buffer, rtol=1e-6, atol=1e-6, msg=name)
    steps = len(x) if kind is StepBatchNorm2d and x.dim() == 5 else 1
    assert messages == [((*more, steps, CHANNELS), torch.float64) for more in ((), (), (2,))]


def test_a_process_without_a_row_makes_all_take_the_definition():
    """It exchanges mean and variance forward, and their gradients backward, however many rows there are."""
    sent = []
    norm = made(StepBatchNorm2d)
    for rows in (0, 2):
        sent.append([])
        set_shard(norm, Shard(0, rows, 2, lambda x: sent[-1].append(x.shape) or x + 1, everywhere=False))
        norm(draws(7, rows, CHANNELS, 4, 3))
    assert sent == [[(7, 1, CHANNELS, 1, 1)] * 2] * 2


def test_in_triton_it_is_the_norm_of_one_process():
    pytest.importorskip("triton")
    from bitspike.ops.norm.torch import step_norm
    from bitspike.ops.norm.triton_across import step_norm_across
    from helpers.kernels import DEVICE

    x, towards = draws(*IMAGES, seed=3).to(DEVICE), draws(*IMAGES, seed=4).to(DEVICE)
    norms = [made(StepBatchNorm2d).to(DEVICE) for _ in range(3)]
    given = x.clone().requires_grad_()

    def averages(norm):
        return Averages(norm.running_mean, norm.running_var, 0.1)

    wanted = step_norm(given, norms[2].weight, norms[2].bias, averages(norms[2]), 1e-5, kernels=True)
    (wanted * towards).sum().backward()
    ranks = Ranks(2)
    shards = ranks.shards(ROWS)

    def body(rank):
        norm, rows = norms[rank], slice(shards[rank].start, shards[rank].stop)
        mine = x[:, rows].clone().requires_grad_()
        out = step_norm_across(mine, norm.weight, norm.bias, averages(norm), 1e-5, shards[rank].across)
        (out * towards[:, rows]).sum().backward()
        return out.detach(), mine.grad

    (one, of_one), (two, of_two) = ranks.run(body)
    assert torch.equal(torch.cat([one, two], 1), wanted)
    torch.testing.assert_close(torch.cat([of_one, of_two], 1), given.grad, rtol=1e-5, atol=1e-6)
    assert [shape for shape, _ in ranks.messages] == [(2, 7, CHANNELS)] * 2
    for name in ("weight", "bias"):
        total = norms[0].get_parameter(name).grad + norms[1].get_parameter(name).grad
        torch.testing.assert_close(total, norms[2].get_parameter(name).grad, rtol=1e-5, atol=1e-4)
    assert torch.equal(norms[0].running_var, norms[2].running_var)


def test_values_of_all_processes_are_counted():
    assert Across(here=2, total=7, sum=None).count(2 * 12) == 7 * 12
