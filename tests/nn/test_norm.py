"""Batch norm per time step is PyTorch's, called T times; a constant current takes the closed form."""

import pytest
import torch
from torch import nn

from bitspike.nn import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d, norm
from bitspike.nn.sharding import Shard, set_shard

STEPS, SHAPE = 6, (3, 4, 5, 5)


def twins(cls, **kwargs):
    """A layer of ours and PyTorch's, with the same parameters that are not their defaults."""
    ours, theirs = cls(4, **kwargs), nn.BatchNorm2d(4, **kwargs)
    with torch.no_grad():
        ours.weight.copy_(torch.randn(4))
        ours.bias.copy_(torch.randn(4))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def assert_same_statistics(ours, theirs, **tolerance):
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), **tolerance)


EXACT = {"rtol": 0, "atol": 0}


@pytest.mark.parametrize("momentum", [0.1, 0.37])
@pytest.mark.parametrize("plain", [False, True])
def test_a_step_norm_is_pytorchs_called_each_step(plain, momentum):
    ours, theirs = twins(StepBatchNorm2d, momentum=momentum)
    x, weights = torch.randn(STEPS, *SHAPE) * 3 + 1, torch.randn(STEPS, *SHAPE)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, wanted = ours(mine, plain=plain), torch.stack([theirs(step) for step in other.unbind()])
    assert torch.equal(out, wanted)
    assert_same_statistics(ours, theirs, **EXACT)
    assert ours.num_batches_tracked == STEPS
    (out * weights).sum().backward()
    (wanted * weights).sum().backward()
    # All steps at once sum the gradients in double; called step by step (plain), they are PyTorch's own.
    tolerance = EXACT if plain else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(mine.grad, other.grad, **tolerance)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, **tolerance)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad, **tolerance)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """All steps at once by the plain passes, as on a device that has no C code; the sizes of what came there."""
    seen, at_once = [], norm.step_norm
    monkeypatch.setattr(norm.library, "usable", lambda x, backend="auto": False)
    monkeypatch.setattr(norm, "_parallel", lambda x: True)
    monkeypatch.setattr(norm, "step_norm", lambda x, *rest: seen.append(tuple(x.shape)) or at_once(x, *rest))
    return seen


@pytest.mark.parametrize("momentum", [0.1, 1.0])
def test_all_steps_at_once_on_a_gpu_are_pytorchs_called_each_step(as_on_a_gpu, momentum):
    ours, theirs = twins(StepBatchNorm2d, momentum=momentum)
    x, weights = torch.randn(STEPS, *SHAPE) * 3 + 1, torch.randn(STEPS, *SHAPE)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, wanted = ours(mine), torch.stack([theirs(step) for step in other.unbind()])
    (out * weights).sum().backward()
    (wanted * weights).sum().backward()
    assert as_on_a_gpu == [x.shape]
    torch.testing.assert_close(out, wanted, rtol=1e-6, atol=2e-6)
    assert_same_statistics(ours, theirs, rtol=1e-6, atol=1e-6)
    for got, right in ((mine, other), (ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        torch.testing.assert_close(got.grad, right.grad, rtol=1e-5, atol=2e-6)


def test_on_a_gpu_the_loop_stays_where_it_is_needed(as_on_a_gpu):
    x = torch.randn(STEPS, *SHAPE)
    plain, bare = StepBatchNorm2d(4), StepBatchNorm2d(4, affine=False)
    wanted = plain(x, plain=True)
    assert torch.equal(bare(x), wanted)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        plain(torch.randn(STEPS, 1, 4, 1, 1))
    assert as_on_a_gpu == []
    assert plain.num_batches_tracked == STEPS + 1  # PyTorch's own counts before it refuses, too
    without = StepBatchNorm2d(4, track_running_stats=False)
    torch.testing.assert_close(without(x), wanted, rtol=1e-6, atol=1e-6)
    assert as_on_a_gpu == [x.shape]


def test_steps_have_their_own_statistics():
    x = torch.randn(STEPS, *SHAPE) * torch.arange(1, STEPS + 1).view(-1, 1, 1, 1, 1)
    out = StepBatchNorm2d(4)(x)
    torch.testing.assert_close(out.std((1, 3, 4), unbiased=False), torch.ones(STEPS, 4), rtol=1e-3, atol=0)


@pytest.mark.parametrize("steps", [1, 2, 100])
@pytest.mark.parametrize("momentum", [0.1, 1.0])
def test_a_constant_current_moves_the_averages_as_t_calls_do(steps, momentum):
    ours, theirs = twins(StepBatchNorm2d, momentum=momentum)
    x = torch.randn(SHAPE) * 3 + 1
    out = ours(x, steps)
    for _ in range(steps):
        wanted = theirs(x)
    assert torch.equal(out, wanted)
    assert_same_statistics(ours, theirs, rtol=1e-6, atol=1e-6)
    assert ours.num_batches_tracked == steps


def test_a_constant_current_normalizes_like_a_repeated_one():
    ours, other = (StepBatchNorm2d(4) for _ in range(2))
    x = torch.randn(SHAPE) + 2
    constant, repeated = x.clone().requires_grad_(), x.clone().requires_grad_()
    weights = torch.randn(STEPS, *SHAPE)
    out = ours(constant, STEPS)
    sequence = other(repeated.expand(STEPS, *SHAPE))
    assert torch.equal(out.expand(STEPS, *SHAPE), sequence)
    assert_same_statistics(ours, other, rtol=1e-6, atol=1e-6)
    (out * weights).sum().backward()
    (sequence * weights).sum().backward()
    torch.testing.assert_close(constant.grad, repeated.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cls", [StepBatchNorm2d, SharedBatchNorm2d])
def test_evaluation_uses_the_running_averages_and_leaves_them(cls):
    ours, theirs = twins(cls)
    with torch.no_grad():
        for layer in (ours, theirs):
            layer.running_mean.copy_(torch.tensor([1.0, -1.0, 0.5, 2.0]))
            layer.running_var.copy_(torch.tensor([1.0, 2.0, 0.5, 4.0]))
            layer.eval()
    x = torch.randn(STEPS, *SHAPE)
    assert torch.equal(ours(x), torch.stack([theirs(step) for step in x]))
    assert torch.equal(ours(x[0], STEPS), theirs(x[0]))
    assert_same_statistics(ours, theirs, **EXACT)


def test_a_shared_norm_folds_time_into_the_batch():
    ours, theirs = twins(SharedBatchNorm2d)
    x = torch.randn(STEPS, *SHAPE)
    assert torch.equal(ours(x), theirs(x.flatten(0, 1)).view_as(x))
    assert_same_statistics(ours, theirs, **EXACT)
    assert ours.num_batches_tracked == 1


def test_step_and_shared_are_different_models():
    x = torch.randn(STEPS, *SHAPE) * torch.arange(1, STEPS + 1).view(-1, 1, 1, 1, 1)
    assert (StepBatchNorm2d(4)(x) - SharedBatchNorm2d(4)(x)).abs().max() > 0.5


def test_without_running_averages_training_still_normalizes_each_step():
    x = torch.randn(STEPS, *SHAPE)
    without = StepBatchNorm2d(4, track_running_stats=False)
    assert torch.equal(without(x), StepBatchNorm2d(4)(x))


def test_without_running_averages_evaluation_normalizes_each_step_too():
    x = torch.randn(STEPS, *SHAPE) * torch.arange(1, STEPS + 1).view(-1, 1, 1, 1, 1)
    without = StepBatchNorm2d(4, track_running_stats=False)
    torch.testing.assert_close(without.eval()(x), StepBatchNorm2d(4)(x))


def dense_twins():
    """A norm of Dense currents and PyTorch's, with the same parameters that are not their defaults."""
    ours, theirs = SharedBatchNorm1d(4), nn.BatchNorm1d(4)
    with torch.no_grad():
        ours.weight.copy_(torch.randn(4))
        ours.bias.copy_(torch.randn(4))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("as_rows", [False, True])  # as on the CPU, as on a GPU
def test_a_dense_norm_is_pytorchs_over_batch_and_time(as_rows, monkeypatch):
    monkeypatch.setattr(norm, "_as_rows", lambda x: as_rows)
    ours, theirs = dense_twins()
    x, weights = torch.randn(STEPS, 3, 4) * 3 + 1, torch.randn(STEPS, 3, 4)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, wanted = ours(mine), theirs(other.flatten(0, 1)).view_as(x)
    torch.testing.assert_close(out, wanted, rtol=1e-6, atol=1e-6)
    (out * weights).sum().backward()
    (wanted * weights).sum().backward()
    for got, right in ((mine, other), (ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        torch.testing.assert_close(got.grad, right.grad, rtol=1e-5, atol=2e-6)
    assert_same_statistics(ours, theirs, rtol=1e-6, atol=1e-6)
    assert ours.num_batches_tracked == 1
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x.flatten(0, 1)).view_as(x), rtol=1e-6, atol=1e-6)
    assert ours(x[:, :0]).shape == (STEPS, 0, 4)


def test_a_dense_norm_by_hand():
    ours = SharedBatchNorm1d(1, eps=1e-12)
    out = ours(torch.tensor([1.0, 3.0, 5.0, 7.0]).view(2, 2, 1))  # mean 4, variance 5, unbiased 20 / 3
    torch.testing.assert_close(out.flatten(), torch.tensor([-3.0, -1.0, 1.0, 3.0]) / 5**0.5)
    assert ours.running_mean.item() == pytest.approx(0.4)
    assert ours.running_var.item() == pytest.approx(0.9 + 0.1 * 20 / 3)


def test_a_dense_norm_of_a_constant_current():
    ours, other = SharedBatchNorm1d(4), SharedBatchNorm1d(4)
    x = torch.randn(3, 4) + 2
    torch.testing.assert_close(ours(x, STEPS).expand(STEPS, 3, 4), other(x.expand(STEPS, 3, 4)), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours.running_mean, other.running_mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 4), (1, 1, 4)])
def test_one_value_is_its_own_mean(shape):
    ours = SharedBatchNorm1d(4)
    with torch.no_grad():
        ours.bias.copy_(torch.arange(4.0))
    x = torch.randn(shape, requires_grad=True)
    out = ours(x)
    torch.testing.assert_close(out, torch.arange(4.0).expand(shape), rtol=0, atol=1e-4)
    out.sum().backward()
    assert x.grad.shape == shape
    torch.testing.assert_close(x.grad, torch.zeros(shape), rtol=0, atol=1e-3)


def test_shares_of_a_batch_have_the_statistics_of_the_whole():
    x, weights = torch.randn(STEPS, 5, 4) * 2 + 1, torch.randn(STEPS, 5, 4)
    whole, shared = SharedBatchNorm1d(4).double(), SharedBatchNorm1d(4).double()
    given = x.double().requires_grad_()
    rows = {"here": (0, 2), "there": (2, 5)}
    sums = {}

    def totals(name):
        """Add what the other process would send: its sums are made by the same formula, on its rows."""
        parts = iter(sums[name])
        return lambda mine: mine + next(parts)

    part, others = given[:, :2], given[:, 2:]
    mean = given.mean((0, 1))
    sums["here"] = [
        others.sum((0, 1)).view(1, 1, 4, 1, 1),
        (others - mean).square().sum((0, 1)).view(1, 1, 4, 1, 1),
    ]
    set_shard(shared, Shard(*rows["here"], 5, totals("here")))
    out, wanted = shared(part), whole(given)[:, :2]
    torch.testing.assert_close(out, wanted)
    assert_same_statistics(shared, whole)
    mine, right = (
        torch.autograd.grad((each * weights[:, :2]).sum(), given, retain_graph=True)[0] for each in (out, wanted)
    )
    torch.testing.assert_close(mine, right)
