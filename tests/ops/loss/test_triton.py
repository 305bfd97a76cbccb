"""Losses in Triton are the plain ones, and so are their answers to which samples are right."""

import pytest
import torch

import bitspike

pytest.importorskip("triton")
from bitspike.ops.loss.triton import count_loss, entropy_loss
from bitspike.train.labels import MixedLabels
from bitspike.train.losses import fires_most, judge_scores, spike_count
from helpers.kernels import DEVICE, rand

pytestmark = pytest.mark.usefixtures("poisoned")


def test_the_count_loss_is_the_plain_one():
    spikes = (rand(133, 7, 11) < 0.4).float().requires_grad_()
    labels = torch.arange(14, device=DEVICE).view(7, 2)[:, 0] % 11
    loss, rights = count_loss(spikes, labels, int(133 * 0.8), int(133 * 0.2))
    assert torch.equal(rights == 1, spikes.sum(0).argmax(1) == labels)
    plain = bitspike.count_loss(spikes, labels)
    torch.testing.assert_close(loss, plain)
    (got,), (wanted,) = torch.autograd.grad(loss * 3, spikes), torch.autograd.grad(plain * 3, spikes)
    torch.testing.assert_close(got, wanted)


def test_of_equal_counts_the_first_class_is_the_answer():
    spikes = torch.ones(3, 2, 4, device=DEVICE)
    assert count_loss(spikes, torch.tensor([0, 1], device=DEVICE), 2, 1)[1].tolist() == [1, 0]


def test_silence_is_no_answer_in_the_kernel_either():
    """Counts of a few spikes or none: many ties, many silent samples; right are those of the one definition."""
    spikes = (rand(3, 60, 4) < 0.1).float()
    for label in range(4):
        labels = torch.full((60,), label, device=DEVICE)
        rights = count_loss(spikes, labels, 2, 1)[1]
        assert torch.equal(rights == 1, fires_most(spike_count(spikes), labels))
    assert (spikes.sum((0, 2)) == 0).sum() > 10


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("classes", "smoothing"), [(20, 0.1), (3, 0.0), (16, 0.3)])
def test_the_cross_entropy_of_scores_is_the_plain_one(classes, smoothing, mixed):
    scores = (rand(9, classes) * 2 - 1).requires_grad_()
    own, other = (torch.arange(9, device=DEVICE) * k % classes for k in (3, 5))
    labels = MixedLabels(own, other, rand(9, seed=1)) if mixed else own
    loss, rights = entropy_loss(scores, own, labels[1:] if mixed else None, 10.0, smoothing)
    wanted = scores.detach().double().cpu().requires_grad_()
    on_cpu = MixedLabels(*(part.cpu() for part in labels)) if mixed else own.cpu()
    plain, right = judge_scores(wanted, on_cpu, 10.0, smoothing)
    assert torch.equal(rights.cpu() == 1, right)
    torch.testing.assert_close(loss.double().cpu(), plain, rtol=1e-6, atol=1e-6)
    (ours,), (theirs,) = torch.autograd.grad(loss * 3, scores), torch.autograd.grad(plain * 3, wanted)
    torch.testing.assert_close(ours.double().cpu(), theirs, rtol=1e-5, atol=1e-6)


def test_of_equal_scores_the_first_class_is_the_answer():
    scores = torch.full((3, 4), -0.5, device=DEVICE)
    assert entropy_loss(scores, torch.tensor([0, 1, 3], device=DEVICE), None, 1.0, 0.0)[1].tolist() == [1, 0, 0]
