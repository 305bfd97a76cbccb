"""A step recorded in parts, with the sums over processes between them, and where those sums are computed."""

from contextlib import contextmanager, nullcontext

import pytest
import torch
import torch.distributed as dist

from bitspike.train import exchange, split_graph
from bitspike.train.exchange import add_up, noted_by
from bitspike.train.split_graph import SplitGraph
from bitspike.train.world import World, shares_gpus


@pytest.fixture
def events(monkeypatch):
    """All that a graph of stand-ins does, in order."""
    seen = []

    class Part:
        def replay(self):
            seen.append(f"replay {parts.index(self)}")

    parts = []

    def make():
        parts.append(Part())
        return parts[-1]

    monkeypatch.setattr(torch.cuda, "CUDAGraph", make)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(split_graph, "recording_on", lambda stream: nullcontext())
    monkeypatch.setattr(split_graph, "begin_capture", lambda part, pool: seen.append(f"begin {parts.index(part)}"))
    monkeypatch.setattr(split_graph, "end_capture", lambda part, *_: seen.append(f"end {parts.index(part)}"))
    monkeypatch.setattr(split_graph, "by_host", lambda tensor: False)
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: seen.append(f"sum {tensor.item():g}"))
    return seen


def test_parts_end_where_processes_exchange_and_nothing_is_exchanged_before_a_replay(events):
    graph = SplitGraph(None)

    def body():
        add_up(torch.tensor(1.0))
        events.append("work")
        return add_up(torch.tensor(2.0))

    assert graph.record(body) == 2
    assert events == ["begin 0", "end 0", "begin 1", "work", "end 1", "begin 2", "end 2"]
    events.clear()
    graph.replay()
    assert events == ["replay 0", "sum 1", "replay 1", "sum 2", "replay 2"]
    add_up(torch.tensor(3.0))
    assert events[-1] == "sum 3"  # nothing is noted any more


def test_a_body_that_fails_ends_its_part_and_the_notes(events):
    def body():
        add_up(torch.tensor(1.0))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        SplitGraph(None).record(body)
    assert events == ["begin 0", "end 0", "begin 1", "end 1"]
    assert not exchange._notes


def test_notes_replace_sums(monkeypatch):
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: pytest.fail("summed"))
    noted = []
    with noted_by(noted.append):
        World(0, 2).sum_(tensor := torch.ones(2))
    assert noted[0] is tensor


@pytest.mark.parametrize(("processes", "gpus", "shared"), [("2", 1, True), ("2", 2, False), (None, 1, False)])
def test_more_processes_than_gpus_share_them(monkeypatch, processes, gpus, shared):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if processes:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    assert shares_gpus() is shared


@contextmanager
def group(backend, folder):
    dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo,cuda:nccl"])
def test_a_recording_in_parts_gives_what_its_body_gives(tmp_path, backend):
    """One process, whose sums change nothing, but which go through the host's memory or through NCCL."""
    device = torch.device("cuda", torch.cuda.current_device())
    x = torch.arange(1000.0, device=device)
    weight = torch.ones(1000, device=device, requires_grad=True)

    def body():
        weight.grad = None
        first = add_up(x * weight.detach())
        (weight * first).sum().backward()
        return add_up(weight.grad * 2).sum()

    with group(backend, tmp_path):
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream):
            for _ in range(3):
                body()
        graph = SplitGraph(stream)
        result = graph.record(body)
        assert len(graph._parts) == 3
        for scale in (1.0, 3.0):
            x.copy_(torch.arange(1000.0) * scale)
            graph.replay()
            assert result.item() == 999000 * scale
        dist.barrier()
        assert World(0, 2).max_(torch.tensor([1.0])).tolist() == [1.0]
