"""The Hankel functions, compared with SciPy's."""

import numpy as np
import pytest
import torch
from scipy.special import hankel1

from bitspike.ops.cochlea.hankel import hankel


@pytest.mark.parametrize("order", [0, 1])
def test_it_is_scipys_in_the_first_quadrant(order):
    rng = np.random.default_rng(0)
    z = 10 ** rng.uniform(-4, 2, 4000) * np.exp(1j * rng.uniform(0, np.pi / 2, 4000))
    z = np.concatenate([z, [1e-4, 1.999999, 2.0, 2.000001, 1.999999j + 1e-9, 2j + 1e-9]])
    ours = hankel(order, torch.from_numpy(z)).numpy()
    np.testing.assert_allclose(ours, hankel1(order, z), rtol=1e-13)
