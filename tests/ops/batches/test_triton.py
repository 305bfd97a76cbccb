"""What an iteration counts, and images gathered, in Triton. Scattered events are in test_scatter.py."""

import pytest
import torch

pytest.importorskip("triton")
from bitspike.ops.batches.triton import gather_images, note_first_bad_, tally_
from helpers.kernels import DEVICE, rand

pytestmark = pytest.mark.usefixtures("poisoned")


def test_the_tally_adds_up():
    sums = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device=DEVICE)
    rights = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0], device=DEVICE)
    tally_(sums, torch.tensor(0.5, device=DEVICE), rights)
    assert sums.tolist() == [3.5, 6.0, 8.0]


def test_the_first_bad_iteration_stays():
    first = torch.tensor([-1, -1, 4, -1], device=DEVICE)
    norms = torch.tensor([1.0, torch.nan, torch.nan, torch.inf], device=DEVICE)
    note_first_bad_(first, norms, torch.tensor(7, device=DEVICE))
    assert first.tolist() == [-1, 7, 4, 7]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_images_are_gathered_as_plainly(dtype):
    values = (rand(6, 1, 5, 7) * 256).to(torch.uint8)[..., 1:]
    labels, rows = (
        torch.arange(6, device=DEVICE) * 3,
        torch.tensor([5, 9, 0, 9, 0, 9, 3], device=DEVICE, dtype=dtype)[::2],
    )
    images, chosen = gather_images(values, labels, rows)
    plain = values[rows].cpu().float().div_(255)  # on a GPU PyTorch multiplies by 1/255, which rounds otherwise
    assert torch.equal(images.cpu(), plain)
    assert torch.equal(chosen, labels[rows])
