"""A convolution and its average pool are one convolution with averaged kernels."""

import pytest
import torch
import torch.nn.functional as F

from bitspike.ops.product.conv_pool import conv_pool, pooled_kernel

CASES = [  # channels, height, width, filters, kernel, pool
    (1, 28, 28, 4, (5, 5), 2),
    (3, 12, 12, 5, (5, 5), 2),
    (2, 9, 10, 3, (3, 3), 2),  # a row that the pool cuts off
    (2, 10, 9, 3, (2, 2), 2),  # the kernel of 3 is no multiple of 2: stays strided
    (2, 11, 13, 3, (3, 4), 3),
    (2, 13, 11, 3, (4, 3), 3),
    (2, 14, 13, 3, (1, 4), 3),  # whole squares, other than square
    (2, 6, 6, 3, (3, 3), 1),
    (2, 6, 6, 3, (5, 5), 2),  # one output
]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_one_convolution_is_convolution_and_pool(case, bias):
    channels, height, width, filters, kernel, pool = case
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels, height, width, generator=g, dtype=torch.float64)
    weight = torch.randn(filters, channels, *kernel, generator=g, dtype=torch.float64)
    offset = torch.randn(filters, generator=g, dtype=torch.float64) if bias else None
    results = []
    for function in (conv_pool, lambda x, w, b, size: F.avg_pool2d(F.conv2d(x, w, b), size)):
        leaves = [None if part is None else part.clone().requires_grad_() for part in (x, weight, offset)]
        out = function(*leaves, pool)
        (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).sum().backward()
        results.append([out, *(leaf.grad for leaf in leaves if leaf is not None)])
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_a_pooled_kernel_is_the_mean_of_shifted_ones():
    weight = torch.randn(2, 3, 2, 4)
    wanted = sum(F.pad(weight, (j, 2 - j, i, 2 - i)) for i in range(3) for j in range(3)) / 9
    torch.testing.assert_close(pooled_kernel(weight, 3), wanted)


def test_sums_that_are_exact_stay_so():
    x = torch.randint(0, 2, (3, 4, 12, 12)).float()
    weight = torch.randint(-8, 9, (5, 4, 5, 5)) / 8
    assert torch.equal(conv_pool(x, weight, None, 2), F.avg_pool2d(F.conv2d(x, weight), 2))
