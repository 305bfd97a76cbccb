"""The Triton backend on a CUDA device, at real sizes. CI has none: run by hand with `pytest -m gpu`."""

import pytest
import torch

from bitspike import Adaptation, lif
from helpers.lif import assert_same_outputs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_gpu(value, **kwargs):
    return torch.tensor(value, device="cuda", **kwargs)


@pytest.mark.parametrize("adaptation", [None, Adaptation(0.97, 1.8)], ids=["plain", "adaptive"])
@pytest.mark.parametrize(
    "shape",
    [(333, 32, 20), (100, 128, 10), (1, 1, 1), (7, 3, 37), (33, 2, 16, 13, 13), (60, 16, 3001), (20, 16, 16384)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_size_fires_as_the_definition(shape, dtype, adaptation):
    current = torch.randn(shape, device="cuda").add(0.3).to(dtype)
    call = {"beta": on_gpu(0.95), "theta": on_gpu(1.3), "slope": 0.5, "adaptation": adaptation}
    with torch.no_grad():
        assert_same_outputs(lif(current, **call, backend="triton"), lif(current, **call, backend="reference"))
        static = {"steps": shape[0], **call}
        assert_same_outputs(lif(current[0], **static, backend="triton"), lif(current[0], **static, backend="reference"))


@pytest.mark.parametrize("neurons", [33, 100, 512])
def test_recurrent_neurons_fire_as_the_definition(neurons):
    current = torch.randint(-3, 5, (50, 33, neurons), device="cuda").float()
    weight = torch.randint(0, 2, (neurons, neurons), device="cuda").float() * 2 - 1
    call = {"beta": on_gpu(0.5), "theta": on_gpu(3.5), "slope": 1.0, "recurrent": weight}
    with torch.no_grad():
        assert_same_outputs(lif(current, **call, backend="triton"), lif(current, **call, backend="reference"))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")  # the recorded graph is kept, on purpose
def test_auto_waits_for_nothing_and_replays_from_a_graph_with_another_threshold():
    theta, beta = on_gpu(1.0), on_gpu(0.9, requires_grad=True)
    current = torch.randn(20, 8, 10, device="cuda", requires_grad=True)

    def step():
        out = lif(current, beta=beta, theta=theta, slope=0.5)
        return out, torch.autograd.grad(out.spikes.sum(0).pow(2).sum(), (current, beta))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    try:
        torch.cuda.set_sync_debug_mode("error")
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, grads = step()
    for value in (1.0, 2.5):
        theta.fill_(value)
        graph.replay()
        assert_same_outputs(out, lif(current, beta=0.9, theta=value, slope=0.5, backend="reference"))
        for grad, wanted in zip(grads, step()[1], strict=True):
            assert torch.equal(grad, wanted)
