"""The losses, by hand and against PyTorch's."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from bitspike import count_loss, cross_entropy_loss, trace_loss
from bitspike.train.losses import judge_counts, judge_entropy, trace_errors


def spikes_of(counts, steps, dtype=torch.float32):
    """[T, B, C] with the given counts [B, C], spikes at the end of time."""
    counts = torch.tensor(counts)
    return (torch.arange(steps).view(-1, 1, 1) >= steps - counts).to(dtype)


def test_count_loss_by_hand():
    # T=10: targets 8 (right) and 2; errors 5-8, 2-2, 3-2 and 0-2, 9-2, 7-8: squares 9, 0, 1, 4, 49, 1 over 6, over T
    spikes = spikes_of([[5, 2, 3], [0, 9, 7]], 10)
    loss = count_loss(spikes, torch.tensor([0, 2]))
    assert loss.item() == pytest.approx((9 + 0 + 1 + 4 + 49 + 1) / 6 / 10, rel=1e-6)


def test_the_right_counts_cost_nothing():
    labels = torch.tensor([1, 0])
    assert count_loss(spikes_of([[20, 80], [80, 20]], 100), labels) == 0
    assert count_loss(spikes_of([[5, 90], [90, 5]], 100), labels, correct=0.9, incorrect=0.05) == 0


def test_targets_are_whole_spikes_rounded_down():
    # T=7: 0.8*7 = 5.6 -> 5 and 0.2*7 = 1.4 -> 1
    assert count_loss(spikes_of([[5, 1]], 7), torch.tensor([0])) == 0


def test_the_rates_are_arguments():
    # T=4, targets 4 and 0; counts 2 and 1: (4 + 1) / 2 / 4
    assert count_loss(spikes_of([[2, 1]], 4), torch.tensor([0]), 1.0, 0.0).item() == 5 / 8


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_labels_of_any_whole_dtype(dtype):
    assert count_loss(spikes_of([[8, 2]], 10), torch.tensor([0], dtype=dtype)) == 0


def test_every_spike_of_a_count_has_the_same_gradient():
    spikes = spikes_of([[5, 2], [0, 9]], 10).requires_grad_()
    count_loss(spikes, torch.tensor([0, 1])).backward()
    # d/dn of (n - target)**2 / (B*C*T) at every time step
    expected = 2 * torch.tensor([[5.0 - 8, 0], [0 - 2, 9 - 8]]) / 4 / 10
    torch.testing.assert_close(spikes.grad, expected.expand(10, 2, 2))


@given(st.integers(1, 30), st.integers(1, 4), st.integers(1, 5), st.integers(0, 1000))
def test_count_loss_is_its_formula(steps, batch, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    spikes = torch.randint(0, 2, (steps, batch, classes), generator=generator).float()
    labels = torch.randint(0, classes, (batch,), generator=generator)
    total = 0.0
    for b in range(batch):
        for c in range(classes):
            target = int(0.8 * steps) if c == labels[b] else int(0.2 * steps)
            total += (spikes[:, b, c].sum().item() - target) ** 2
    assert count_loss(spikes, labels).item() == pytest.approx(total / (batch * classes) / steps, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_spikes_are_counted_in_full(dtype):
    # 301 spikes where none are wanted: 301**2 overflows float16, and 301 does not exist in bfloat16.
    loss = count_loss(spikes_of([[301, 301]], 301, dtype), torch.tensor([0]), 1.0, 0.0)
    assert loss.item() == 301**2 / 2 / 301


def test_cross_entropy_by_hand():
    # T=10, scale 10: logits are the counts, 2 and 1 (right: the first); -log softmax is log(1 + e**-1)
    loss = cross_entropy_loss(spikes_of([[2, 1]], 10), torch.tensor([0]))
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-6)
    # smoothing 0.2: 0.9 of the right one, 0.1 of the other
    smooth = cross_entropy_loss(spikes_of([[2, 1]], 10), torch.tensor([0]), smoothing=0.2)
    assert smooth.item() == pytest.approx(math.log(1 + math.exp(-1)) + 0.1, rel=1e-6)


@given(
    st.integers(1, 30), st.integers(1, 4), st.integers(1, 5), st.integers(0, 1000),
    st.floats(0.1, 30), st.floats(0, 0.99),
)  # fmt: skip
def test_cross_entropy_is_torchs_of_scaled_rates(steps, batch, classes, seed, scale, smoothing):
    generator = torch.Generator().manual_seed(seed)
    spikes = torch.randint(0, 2, (steps, batch, classes), generator=generator).double()
    labels = torch.randint(0, classes, (batch,), generator=generator)
    ours, theirs = spikes.clone().requires_grad_(), spikes.clone().requires_grad_()
    loss = cross_entropy_loss(ours, labels, scale, smoothing)
    wanted = F.cross_entropy(theirs.mean(0) * scale, labels, label_smoothing=smoothing)
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-9, abs=1e-12)
    loss.backward()
    wanted.backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_the_gradient_of_cross_entropy_is_one_for_all_of_time():
    spikes, seen = torch.rand(50, 3, 4, requires_grad=True), []
    passed = spikes * 1
    passed.register_hook(lambda grad: seen.append((grad.stride(), grad.dtype)))
    cross_entropy_loss(passed, torch.tensor([0, 1, 3]), 10.0, 0.1).backward()
    assert seen == [((0, 4, 1), torch.float32)]  # nothing of size T is written


def test_both_losses_hold_the_same_samples_for_right():
    spikes = spikes_of([[3, 3, 1], [1, 3, 3], [0, 0, 0], [0, 0, 9]], 10)
    for labels in (torch.tensor([0, 1, 0, 2]), torch.tensor([1, 2, 1, 0])):
        counted, entropic = judge_counts(spikes, labels, 0.8, 0.2), judge_entropy(spikes, labels, 10.0, 0.1)
        most = torch.tensor([0, 1, -1, 2])  # the first among equals; silence is no answer
        assert counted[1].tolist() == entropic[1].tolist() == (labels == most).tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_spikes_are_entropic_in_full(dtype):
    # 2999 against 3000 of 3000 steps: bfloat16 could not tell
    spikes = spikes_of([[2999, 3000]], 3000, dtype)
    assert cross_entropy_loss(spikes, torch.tensor([1]), 3000.0).item() == pytest.approx(math.log(1 + math.exp(-1)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"labels": torch.tensor([0, 2])}, r"cross_entropy_loss: labels must be in 0..1, but range over 0..2"),
        ({"labels": torch.tensor([0, -1])}, r"cross_entropy_loss: labels must be in 0..1, but range over -1..0"),
        ({"labels": torch.tensor([0])}, r"cross_entropy_loss: labels must be whole numbers of shape \[2\]"),
        ({"labels": torch.tensor([0.0, 1.0])}, "cross_entropy_loss: labels must be whole numbers"),
        ({"spikes": torch.zeros(0, 2, 2)}, r"cross_entropy_loss: spikes must be \[T, B, classes\] with T >= 1"),
        ({"spikes": torch.zeros(4, 2)}, "cross_entropy_loss: spikes must be"),
        ({"scale": 0.0}, "cross_entropy_loss: scale must be > 0, but is 0.0"),
        ({"scale": math.inf}, "cross_entropy_loss: scale must be > 0, but is inf"),
        ({"smoothing": 1.0}, r"cross_entropy_loss: smoothing must be in \[0, 1\), but is 1.0"),
        ({"smoothing": -0.1}, "cross_entropy_loss: smoothing must be"),
    ],
)
def test_what_cross_entropy_refuses(change, says):
    with pytest.raises(ValueError, match=says):
        cross_entropy_loss(**{"spikes": torch.zeros(4, 2, 2), "labels": torch.tensor([0, 1]), **change})
    if "spikes" in change or "labels" in change:
        with pytest.raises(ValueError, match=says.replace("cross_entropy_loss", "count_loss")):
            count_loss(**{"spikes": torch.zeros(4, 2, 2), "labels": torch.tensor([0, 1]), **change})


def test_whole_numbers_are_no_spikes():
    for loss in (count_loss, cross_entropy_loss):
        with pytest.raises(TypeError, match=f"{loss.__name__}: spikes must be floating point, but have dtype"):
            loss(torch.zeros(4, 2, 2, dtype=torch.int64), torch.tensor([0, 1]))
        with pytest.raises(TypeError, match=f"{loss.__name__}: labels must be a tensor, but is a list"):
            loss(torch.zeros(4, 2, 2), [0, 1])


def test_trace_loss_by_hand():
    # [T=3, B=2]: squares 1, 4 | 0, 1 | 9, 0; mean over the batch, sum over time
    membrane = torch.tensor([[1.0, -2], [3, 4], [0, 3]])
    target = torch.tensor([0.0, 3, 3])
    assert trace_loss(membrane, target).item() == (1 + 4) / 2 + (0 + 1) / 2 + (9 + 0) / 2


def test_a_trace_of_one_membrane_is_summed_over_time():
    assert trace_loss(torch.tensor([1.0, 2, 3]), torch.tensor([1.0, 0, 5])).item() == 0 + 4 + 4


def test_a_target_for_every_neuron_is_the_same_when_they_agree():
    membrane, target = torch.randn(5, 2, 3), torch.randn(5)
    full = target.view(5, 1, 1).expand(5, 2, 3)
    assert torch.equal(trace_loss(membrane, target), trace_loss(membrane, full))


def test_a_target_for_every_neuron_is_met_where_it_stands():
    target = torch.randn(5, 2, 3)
    assert trace_loss(target.clone(), target) == 0
    assert trace_loss(target.flip(2), target) > 0


def test_the_gradient_of_the_trace_pulls_towards_the_target():
    membrane = torch.zeros(2, 2, requires_grad=True)
    trace_loss(membrane, torch.tensor([3.0, -1.0])).backward()
    assert membrane.grad.tolist() == [[-3, -3], [1, 1]]


@pytest.mark.parametrize("over_time", ["sum", "mean"])
def test_trace_errors_are_one_number_for_each_of_the_rest(over_time):
    membrane, target = torch.tensor([[1.0, 2], [3, 5]]), torch.tensor([[0.0], [1]])
    expected = torch.tensor([1.0 + 4, 4 + 16]) / (2 if over_time == "mean" else 1)
    assert torch.equal(trace_errors(membrane, target, over_time), expected)
    assert trace_errors(membrane, target, "sum").mean() == trace_loss(membrane, target[:, 0])
