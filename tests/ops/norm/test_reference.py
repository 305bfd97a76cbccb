"""The definition of batch norm per step: T calls of F.batch_norm, bit for bit, with right gradients for any layout."""

import torch
import torch.nn.functional as F

from bitspike.ops.norm.reference import Averages, image_norm, step_norm


def test_it_is_a_call_of_pytorchs_for_each_step():
    x, (weight, bias) = torch.randn(5, 3, 2, 4, 4), torch.randn(2, 2)
    ours, theirs, count = Averages(torch.ones(2), torch.ones(2), 0.3), (torch.ones(2), torch.ones(2)), torch.tensor(7)
    out = step_norm(x, weight, bias, ours, 1e-5, count)
    assert torch.equal(out, torch.stack([F.batch_norm(step, *theirs, weight, bias, True, 0.3, 1e-5) for step in x]))
    assert torch.equal(ours.mean, theirs[0])
    assert torch.equal(ours.variance, theirs[1])
    assert count == 7 + 5


def test_one_step_moves_the_averages_once_and_counts_its_copies():
    x, averages, count = torch.randn(3, 2, 4, 4), Averages(torch.zeros(2), torch.ones(2), 1.0), torch.tensor(0)
    image_norm(x, None, None, averages, 1e-5, count, 4)
    torch.testing.assert_close(averages.mean, x.mean((0, 2, 3)))
    assert count == 4


def test_one_image_whose_channels_lie_side_by_side_has_the_right_gradient():
    leaves = []
    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)).contiguous(memory_format=layout)
        leaves.append(x.requires_grad_())
        (image_norm(x, None, None, Averages(None, None, 0.1), 1e-5) ** 3).sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)
