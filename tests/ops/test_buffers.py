"""Recycled memory belongs to one tensor at a time, however that tensor lives on."""

import gc
import threading
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import lif
from bitspike.ops.buffers import BufferPool, _keep_from_environment, keep_freed_memory

COUNT = 1 << 18  # floats: a megabyte, the least that is recycled
BYTES = 4 * COUNT


@pytest.fixture
def pool():
    return BufferPool(keep=64 * BYTES)


def address_of_a_dead_buffer(pool, shape=(COUNT,)):
    return pool.empty(shape).data_ptr()


def test_a_dead_buffer_is_handed_out_again_in_any_shape(pool):
    address = address_of_a_dead_buffer(pool)
    again = pool.empty((2, COUNT // 8, 4))
    assert again.data_ptr() == address
    assert again.shape == (2, COUNT // 8, 4)
    assert again.dtype == torch.float32
    assert again.is_contiguous()


def test_another_size_gets_other_memory(pool):
    address = address_of_a_dead_buffer(pool)
    larger = pool.empty((COUNT + 1,))
    assert larger.data_ptr() != address
    assert larger.shape == (COUNT + 1,)
    # The unfit buffer is still there for its own size.
    assert pool.empty((COUNT,)).data_ptr() == address


def test_two_live_buffers_are_apart(pool):
    one, two = pool.empty((COUNT,)).fill_(1), pool.empty((COUNT,)).fill_(2)
    assert one.eq(1).all()
    assert two.eq(2).all()


@pytest.mark.parametrize(
    "hold",
    [lambda x: x[10:20], lambda x: x.view(2, -1)[1, :3], lambda x: x.detach(), lambda x: x.numpy()[5:9]],
    ids=["slice", "view", "detached", "numpy"],
)
def test_a_view_keeps_the_memory(pool, hold):
    buffer = pool.empty((COUNT,)).fill_(1)
    view = hold(buffer)
    address = buffer.data_ptr()
    del buffer
    assert pool.empty((COUNT,)).fill_(2).data_ptr() != address
    assert (view == 1).all()
    del view
    gc.collect()
    taken = [pool.empty((COUNT,)) for _ in range(2)]
    assert address in [tensor.data_ptr() for tensor in taken]


def test_a_tensor_saved_for_backward_keeps_the_memory(pool):
    weight = torch.ones(COUNT, requires_grad=True)
    buffer = pool.empty((COUNT,)).fill_(3)
    loss = (weight * buffer).sum()
    del buffer
    overwrite = [pool.empty((COUNT,)).fill_(7) for _ in range(3)]
    loss.backward()
    assert weight.grad.eq(3).all()
    assert len(overwrite) == 3


def test_small_tensors_are_left_to_malloc(pool):
    assert pool.empty((COUNT - 1,)).shape == (COUNT - 1,)
    assert pool.empty((3, 0, 4)).shape == (3, 0, 4)
    assert not pool._free


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_no_more_than_the_limit_is_kept(kept):
    pool = BufferPool(keep=kept * BYTES)
    buffers = [pool.empty((COUNT,)) for _ in range(5)]
    assert not pool._free
    addresses = [buffer.data_ptr() for buffer in buffers]
    while buffers:
        buffers.pop(0)
    assert sum(memory.nbytes for memory in pool._free) == kept * BYTES
    # The oldest go first.
    assert [memory.data_ptr() for memory in pool._free] == addresses[5 - kept :]


def test_one_buffer_larger_than_the_limit_is_not_kept():
    pool = BufferPool(keep=BYTES)
    pool.empty((2 * COUNT,))
    assert not pool._free


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from([COUNT, COUNT + 16])), max_size=30))
def test_live_buffers_never_overlap(actions):
    pool = BufferPool(keep=3 * BYTES)
    live = []
    for serial, (take, victim, size) in enumerate(actions):
        if take or not live:
            live.append((pool.empty((size,)).fill_(serial), serial))
        else:
            live.pop(victim % len(live))
        ranges = sorted((tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor, _ in live)
        assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
        # First and last element: enough to see a foreign fill.
        assert all(tensor[0] == mark and tensor[-1] == mark for tensor, mark in live)


def test_threads_never_share_a_buffer():
    pool = BufferPool(keep=4 * BYTES)
    wrong, gate = [], threading.Barrier(4)

    def work(mark):
        gate.wait()
        for _ in range(30):
            mine = pool.empty((COUNT,)).fill_(mark)
            also = pool.empty((COUNT,)).fill_(-mark)
            if not (mine.eq(mark).all() and also.eq(-mark).all()):
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(memory.nbytes for memory in pool._free) <= 4 * BYTES


def test_a_buffer_may_die_in_another_thread(pool):
    holder = [pool.empty((COUNT,))]
    address = holder[0].data_ptr()
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    assert pool.empty((COUNT,)).data_ptr() == address


def test_buffers_are_float32_whatever_pytorchs_default(pool):
    torch.set_default_dtype(torch.float64)
    try:
        small, large = pool.empty((3,)), pool.empty((COUNT,))
    finally:
        torch.set_default_dtype(torch.float32)
    assert small.dtype == large.dtype == torch.float32


def test_a_buffer_of_no_dimensions(pool):
    assert pool.empty(()).shape == ()


def test_large_outputs_can_be_changed_in_place():
    # As small ones can: a view as an output of an autograd function could not.
    current = torch.ones(100, 3, 1024, requires_grad=True)
    out = lif(current, beta=0.5, theta=1.0, slope=1.0, backend="auto")
    assert out.spikes.nbytes >= 1 << 20
    out.spikes.mul_(2).sum().backward()
    assert current.grad is not None


def test_batches_of_about_one_size_share_buffers(pool):
    first = pool.empty((1000, 1000))
    where = first.data_ptr()
    del first
    assert pool.empty((1000, 1001)).data_ptr() == where


@pytest.mark.parametrize("text", ["-1", "1g", "", "1.5"])
def test_a_wrong_size_in_the_environment_is_said(monkeypatch, text):
    monkeypatch.setenv("BITSPIKE_CPU_CACHE_MB", text)
    with pytest.raises(ValueError, match="BITSPIKE_CPU_CACHE_MB must be a whole number"):
        _keep_from_environment()


def test_a_tensor_that_dies_while_the_pool_is_at_work_waits_its_turn(pool):
    # As in a garbage collection that interrupts the pool on its own thread: a second wait for the lock would hang.
    tensor = pool.empty((1000, 1000))
    where = tensor.data_ptr()
    with pool._lock:
        del tensor
    assert pool.empty((1000, 1000)).data_ptr() == where


def test_asking_to_keep_freed_memory_does_no_harm():
    keep_freed_memory()
    assert torch.ones(1 << 20).sum() == 1 << 20
