"""Batches from lists of full bins: the definition equals dense frames, the kernel the definition."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data.samples import frames_from_dense
from bitspike.ops.batches.scatter import scatter_counts
from helpers.frames import dense

pytest.importorskip("triton")
from bitspike.ops.batches import triton
from helpers.interpreter import mend

mend()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True, scope="module")
def _small_blocks():
    """Blocks that a few dozen events fill more than once."""
    true, triton._EVENTS = triton._EVENTS, 16
    yield
    triton._EVENTS = true


def arguments(frames, rows):
    return frames.to(DEVICE).bins, rows.to(DEVICE)


@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from([(3,), (2, 2, 3), (1,), (16,)]),
    st.integers(0, 99),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([1, 4, 16]),
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
def test_a_batch_is_the_dense_tensor_time_first(samples, steps, shape, seed, density, pad, rows):
    values = dense(samples, steps, shape, seed, density)
    rows = torch.tensor(rows) % samples
    call = arguments(frames_from_dense(values, torch.arange(samples)), rows)
    wanted = values[rows].transpose(0, 1).flatten(2).to(DEVICE, torch.uint8)
    for scatter in (scatter_counts, triton.scatter_counts):
        out = scatter(*call, pad=pad)
        assert (out.dtype, out.shape[:2], out.shape[2] % pad) == (torch.uint8, wanted.shape[:2], 0)
        assert 0 <= out.shape[2] - wanted.shape[2] < pad
        assert torch.equal(out[..., : wanted.shape[2]], wanted)
        assert not out[..., wanted.shape[2] :].any()


def test_selected_samples_of_different_lengths_in_any_order():
    # Lengths 0, 1 and many: blocks beyond a sample's end write nothing into the next one's bins.
    values = torch.zeros(4, 6, 9, dtype=torch.long)
    values[1, 2, 3] = 255
    values[2] = 7
    values[3, 5, 8] = 1
    chosen = frames_from_dense(values, torch.arange(4)).select(torch.tensor([3, 1, 0, 2]))
    call = arguments(chosen, torch.tensor([2, 3, 0, 1, 1]))
    ours = triton.scatter_counts(*call, pad=4)
    assert torch.equal(ours, scatter_counts(*call, pad=4))
    assert torch.equal(ours[..., :9].cpu(), values[[0, 2, 3, 1, 1]].transpose(0, 1).to(torch.uint8))


def test_no_samples_and_no_events():
    silent = frames_from_dense(torch.zeros(2, 3, 4, dtype=torch.long), torch.arange(2))
    for rows, batch in ((torch.tensor([1, 0]), 2), (torch.tensor([], dtype=torch.long), 0)):
        for scatter in (scatter_counts, triton.scatter_counts):
            out = scatter(*arguments(silent, rows))
            assert out.shape == (3, batch, 4)
            assert not out.any()


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_real_size_without_waiting():
    values = dense(40, 333, (700,), density=0.03)
    call = arguments(frames_from_dense(values, torch.arange(40)), torch.arange(39, 7, -1))
    triton.scatter_counts(*call, pad=16)
    try:
        torch.cuda.set_sync_debug_mode("error")
        ours = triton.scatter_counts(*call, pad=16)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(ours, scatter_counts(*call, pad=16))
