"""The core on a CUDA device. CI has none: run by hand with `pytest -m gpu`."""

import pytest
import torch

import bitspike
from bitspike import Adaptation, Relax, ThresholdAnnealing, lif
from bitspike.suggest import measure_drive

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def integers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(-3, 5, shape, generator=torch.Generator().manual_seed(seed)).float()


@pytest.mark.parametrize("adaptation", [None, Adaptation(0.5, 0.25)])
@pytest.mark.parametrize("recurrent", [False, True])
def test_spikes_on_the_gpu_equal_the_cpus_bit_for_bit(recurrent, adaptation):
    current = integers(100, 7, 33)
    weight = bitspike.binarize(torch.randn(33, 33, generator=torch.Generator().manual_seed(1))) if recurrent else None
    call = {"beta": 0.5, "theta": 3.5, "slope": 2.0, "adaptation": adaptation}
    cpu = lif(current, recurrent=weight, backend="reference", **call)
    for backend in ("reference", "torch", "auto"):
        on_gpu = lif(current.cuda(), recurrent=None if weight is None else weight.cuda(), backend=backend, **call)
        assert torch.equal(on_gpu.spikes.cpu(), cpu.spikes)
        assert torch.equal(on_gpu.membrane.cpu(), cpu.membrane)


def test_gradients_on_the_gpu_equal_the_cpus():
    grads = []
    for device, backend in (("cpu", "torch"), ("cuda", "torch"), ("cuda", "triton"), ("cuda", "auto")):
        net = bitspike.build(
            "4Conv3-AP2-36Dense10",
            (1, 8, 8),
            theta=2.0,
            slope=0.5,
            norm="step",
            generator=torch.Generator().manual_seed(0),
            backend=backend,
        ).to(device)
        x = integers(20, 5, 1, 8, 8).to(device)
        bitspike.count_loss(net(x).spikes, torch.arange(5, device=device)).backward()
        grads.append([p.grad.cpu() for p in net.parameters()])
    # The plain modules on either device, the Triton scan (its surrogate is bfloat16), and all layers fused.
    for tolerance, others in zip((1e-4, 1e-2, 2e-2), grads[1:], strict=True):
        for cpu, gpu in zip(grads[0], others, strict=True):
            assert (cpu - gpu).abs().max() <= tolerance * cpu.abs().max()


def test_annealing_writes_into_the_buffer_on_the_device():
    net = bitspike.build("6-5-4", theta=1.0).cuda()
    annealing = ThresholdAnnealing(net, Relax(2.0, 8.0, 0.5))
    where = net.layers[0].lif.theta.data_ptr()
    annealing.step()
    assert net.layers[0].lif.theta.data_ptr() == where
    assert annealing.thresholds() == {"layers.0.lif": 5.0, "layers.1.lif": 5.0}


def test_a_step_before_backward_says_the_order_of_a_fused_network_too():
    net = bitspike.build("4Conv3-AP2-36Dense10", (1, 8, 8), norm="step").cuda()
    x = torch.rand(5, 1, 8, 8, device="cuda")
    assert net.unfused(x) is None
    annealing = ThresholdAnnealing(net, Relax(2.0, 8.0, 0.5))
    loss = net(x).spikes.sum()
    annealing.step()
    with pytest.raises(RuntimeError, match=r"call annealing\.step\(\) after optimizer\.step\(\)"):
        loss.backward()


def test_a_fused_network_inside_another_module_is_recorded_and_measured():
    net = bitspike.build("6-9-5", theta=1.0, steps=20, init="released").cuda()
    x = torch.rand(16, 6, device="cuda")
    whole = torch.nn.Sequential(torch.nn.Identity(), net)
    with bitspike.record(whole) as layers:
        whole(x)
    for name, wanted in zip(net.neuron_names(), net.run(x), strict=True):
        assert torch.equal(layers[f"1.{name}"].membrane, wanted.membrane)
    state = torch.cuda.get_rng_state()
    for one, other in zip(measure_drive(net, x), measure_drive(whole, x), strict=True):
        torch.testing.assert_close(one.peaks, other.peaks)
    assert torch.equal(torch.cuda.get_rng_state(), state)
