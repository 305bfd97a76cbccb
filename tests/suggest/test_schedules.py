"""Schedules from the measured drive: every layer fires at theta_0, sparser input starts lower and anneals slower."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import bitspike
from bitspike import Constant, Relax, ThresholdAnnealing, build, suggest_schedules
from bitspike.suggest import measure_drive, relaxing_rate
from bitspike.suggest.schedules import suggest_with_drives

CONV = "6Conv3-AP2-8Conv3-8Dense5"  # for 1 x 8 x 8


def conv(seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    return build(CONV, (1, 8, 8), steps=12, init="released", generator=generator, **options)


def images(seed=0, count=64, keep=1.0):
    """Images, thinned; the pixels kept are some of those kept at a larger share."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(count, 1, 8, 8, generator=generator)
    return values * (torch.rand(values.shape, generator=generator) < keep)


# ---- The drive


def test_the_peak_is_that_of_the_free_membrane():
    net = build("2-1-1", beta=0.5, steps=3)
    with torch.no_grad():
        for layer in net.layers:
            layer.synapse.weight.fill_(1.0)
            layer.synapse.bias.zero_()
    first, second = measure_drive(net, torch.tensor([[1.0, 2.0], [0.0, 4.0]]), start=0.5)
    # a constant current of 3 and 4 for 3 steps: 1.75 times it
    assert first.peaks.tolist() == [[5.25], [7.0]]
    assert (first.layer, first.typical, first.theta) == ("layers.0.lif", 7.0, 3.5)
    # at 3.5 the first sample fires in the second step, the other at once, then resets: 4, 6 - 3.5 = 2.5, 5.25
    assert second.peaks.tolist() == [[1.0], [1.25]]
    assert second.theta == 0.625


def test_a_sequence_is_driven_by_all_its_steps():
    net = conv()
    static = images()
    repeated = static.expand(net.steps, *static.shape)
    for one, other in zip(measure_drive(net, static), measure_drive(net, repeated), strict=True):
        assert torch.allclose(one.peaks, other.peaks, rtol=1e-5, atol=1e-5)


def test_bytes_of_event_counts_are_taken():
    counts = torch.randint(0, 3, (7, 16, 20), dtype=torch.uint8)
    net = build("20-10-4")
    for one, other in zip(measure_drive(net, counts), measure_drive(net, counts.float()), strict=True):
        assert torch.equal(one.peaks, other.peaks)


def test_dropout_does_nothing():
    plain, dropped = (build("20-10-4", dropout=p, generator=torch.Generator().manual_seed(1)) for p in (0.0, 0.5))
    x = torch.rand(16, 20)
    assert [d.theta for d in measure_drive(plain, x)] == [d.theta for d in measure_drive(dropped, x)]


@pytest.mark.parametrize("norm", ["step", "shared"])
def test_batch_norm_takes_the_batch_s_statistics(norm):
    """Ten times the input is the same after batch norm; running averages of an untrained network would not do that."""
    net = conv(norm=norm).eval()
    one, ten = (measure_drive(net, scale * images())[0].typical for scale in (1, 10))
    assert ten == pytest.approx(one, rel=1e-3)


def test_batch_norm_behind_dense_layers_makes_the_drive_independent_of_the_inputs_scale():
    net, x = build("20-30-4", dense_norm=True, generator=torch.Generator().manual_seed(0)), torch.rand(12, 16, 20)
    for one, ten in zip(measure_drive(net, x), measure_drive(net, 10 * x), strict=True):
        assert ten.typical == pytest.approx(one.typical, rel=1e-3)


def test_delays_are_soft_as_in_training():
    net, x = build("20-30-4", delays=6, generator=torch.Generator().manual_seed(0)), torch.rand(12, 16, 20)
    first = measure_drive(net.eval(), x)[0]
    soft = copy.deepcopy(net.layers[0]).train()
    soft.lif.set_theta(1e30, initial=1e30)
    assert torch.equal(first.peaks, soft(x).membrane.amax(0))
    sharp = soft.eval()
    assert not torch.equal(first.peaks, sharp(x).membrane.amax(0))


def test_a_readout_that_never_fires_has_a_drive():
    net, x = build("20-30-4", readout="membrane", generator=torch.Generator().manual_seed(0)), torch.rand(12, 16, 20)
    *_, last = measure_drive(net, x)
    assert last.peaks.shape == (16, 4)
    with torch.no_grad():
        net.layers[1].synapse.weight.fill_(-1.0)
        net.layers[1].synapse.bias.zero_()
    assert len(suggest_schedules(net, x, iterations=10)) == 2


@pytest.mark.parametrize("dense_norm", [False, True])
def test_a_recurrent_layer_is_driven_by_its_feedback_too(dense_norm):
    """Its drive is the threshold at which half of what is driven fires, with the feedback of these spikes."""
    generator = torch.Generator().manual_seed(0)
    net = build("20-60-40-4", recurrent=True, dense_norm=dense_norm, generator=generator)
    x = torch.rand(15, 16, 20, generator=generator)
    first, second, _ = measure_drive(net, x)
    without = build("20-60-40-4", dense_norm=dense_norm)
    without.load_state_dict(
        {key: value for key, value in net.state_dict().items() if key != "layers.0.lif.weight"}, strict=False
    )
    assert first.typical > measure_drive(without, x)[0].typical
    for place, theta in ((0, first.typical), (1, second.typical)):
        ThresholdAnnealing(net, [Constant(first.theta if place else theta), Constant(theta), Constant(1.0)])
        with torch.no_grad():
            out = net.run(x)[place]
        fired, driven = out.spikes.amax(0) > 0, out.membrane.amax(0) > 0
        assert 0.45 < (fired.sum() / (fired | driven).sum()).item() < 0.55


@given(st.integers(0, 50), st.floats(0.1, 0.9))
def test_a_layer_fires_where_its_peaks_reach_theta(seed, start):
    """What the drive promises is what the network does: the same neurons fire, of each layer, for some sample."""
    net, x = conv(seed), images(seed)
    drives = measure_drive(net, x, start=start)
    ThresholdAnnealing(net, [Constant(drive.theta) for drive in drives])
    with torch.no_grad():
        outputs = net.run(x)
    for drive, output in zip(drives, outputs, strict=True):
        fires = output.spikes.amax(0) > 0
        assert torch.equal(fires, drive.peaks >= torch.tensor(drive.theta))
        assert drive.alive(drive.theta) == fires.any(0).double().mean().item()
        assert fires.sum() > (drive.peaks > 0).sum() / 2


@pytest.mark.parametrize("training", [True, False])
def test_the_network_stays_as_it_was(training):
    net = conv(norm="step", dropout=0.3, theta=1.7).train(training)
    net(images())[0].sum().backward()
    before = copy.deepcopy(net.state_dict())
    gradients = [p.grad.clone() for p in net.parameters()]
    modes = [module.training for module in net.modules()]
    with net.record() as recording:
        suggest_schedules(net, images(), iterations=100)
    assert not recording
    after = net.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), gradients, strict=True))
    assert [module.training for module in net.modules()] == modes


# ---- Schedules


@pytest.mark.parametrize("options", [{}, {"theta_inf": 2.0}, {"start": 0.2, "stop": 0.6}, {"stop": 2.0}])
def test_a_layer_is_measured_with_those_before_it_at_their_final_thresholds(options):
    """Not at those that they start from; near the typical peak where the final one is above it."""
    net, x = conv(), images()
    schedules = suggest_schedules(net, x, iterations=100, **options)
    firing = [
        min(schedule.final, 0.99 * d.typical) for schedule, d in zip(schedules, measure_drive(net, x), strict=True)
    ]
    copied = copy.deepcopy(net)
    ThresholdAnnealing(copied, [Constant(firing[0]), Constant(1e30), Constant(1e30)])
    with torch.no_grad():
        peaks = copied.run(x)[1].membrane.amax(0)
    share = options.get("start", min(options.get("stop", 0.5) / 2, 0.5))
    assert schedules[1].final == pytest.approx(options.get("theta_inf", options.get("stop", 0.5) * _typical(peaks)))
    if isinstance(schedules[1], Relax):
        assert schedules[1].start == pytest.approx(share * _typical(peaks))


def _typical(peaks):
    driven = peaks[peaks > 0].sort().values
    return driven[len(driven) // 2].item()


@given(st.integers(0, 50), st.sampled_from([None, "step", "shared"]))
def test_every_layer_of_the_suggested_network_fires(seed, norm):
    net, x = conv(seed, norm=norm), images(seed, keep=0.5)
    schedules = suggest_schedules(net, x, iterations=1000)
    assert len(schedules) == len(net.layers)
    ThresholdAnnealing(net, schedules)
    with torch.no_grad():
        assert all(output.spikes.any() for output in net.run(x))


@given(st.integers(0, 50), st.floats(0.15, 0.9))
def test_sparser_input_starts_lower_and_anneals_slower(seed, keep):
    """Of the first layer, and the rate to a theta_inf that is given, where the paper's bound decides it."""
    net = conv(seed)
    full, thin = (suggest_schedules(net, images(seed, 128, k), iterations=1, theta_inf=500.0)[0] for k in (1.0, keep))
    assert thin.start < full.start
    assert thin.rate < full.rate < relaxing_rate(1, 0.3)


@given(st.integers(0, 50), st.integers(1, 10**6), st.floats(0.05, 1.0))
def test_one_update_does_not_pass_the_typical_peak(seed, iterations, within):
    """The paper's Eq. 7, and never faster than asked for."""
    net, x = conv(seed), images(seed)
    schedules = suggest_schedules(net, x, iterations=iterations, stop=2.0, within=within)
    for drive, schedule in zip(measure_drive(net, x, start=0.99), schedules, strict=True):
        assert schedule.start == 0.5 * drive.typical
        assert schedule.stop == 2 * drive.typical
        assert schedule(1) <= drive.typical * (1 + 1e-9)
        assert schedule.rate <= relaxing_rate(iterations, within)


@given(st.integers(10, 10**6), st.floats(0.1, 1.0))
def test_the_rate_covers_95_percent_in_time(iterations, within):
    relax = Relax(1.0, 2.0, relaxing_rate(iterations, within))
    assert 2.0 - (relax.stop - relax.start) * (1 - relax.rate) ** (within * iterations) == pytest.approx(1.95)


def test_a_threshold_below_the_start_needs_no_annealing():
    net, x = conv(), images()
    drives = measure_drive(net, x, start=0.125)  # half of the share that schedules start at
    given_ones = [drives[0].theta, 0.25 * drives[1].typical, 1e6]
    first, second, third = suggest_schedules(net, x, iterations=100, theta_inf=given_ones)
    assert first == Constant(given_ones[0])
    assert second == Constant(given_ones[1])
    assert isinstance(third, Relax)
    assert third.stop == 1e6


def test_a_static_batch_ends_at_half_the_drive_and_a_sequence_at_a_quarter():
    net = build("12-30-4", steps=10, generator=torch.Generator().manual_seed(0))
    for x, stop in ((torch.rand(16, 12), 0.5), (torch.rand(10, 16, 12), 0.25)):
        for schedule, drive in suggest_with_drives(net, x, 100):
            assert (schedule.start, schedule.stop) == pytest.approx((stop / 2 * drive.typical, stop * drive.typical))


def test_a_layer_that_hears_itself_stays_at_its_drive():
    """At a low threshold its feedback would drown its input; the layer behind it ends as any other."""
    net, x = build("12-30-4", recurrent=True, generator=torch.Generator().manual_seed(0)), torch.rand(10, 16, 12)
    (one, first), (other, second) = suggest_with_drives(net, x, 100)
    assert (first.feedback, second.feedback) == (True, False)
    assert isinstance(one, Constant)
    assert one.final == pytest.approx(first.typical)
    assert (other.start, other.stop) == pytest.approx((0.125 * second.typical, 0.25 * second.typical))
    (one, first), _ = suggest_with_drives(net, x, 100, start=0.3)
    assert (one.start, one.stop) == pytest.approx((0.3 * first.typical, 1.0 * first.typical))
    (one, first), _ = suggest_with_drives(net, x, 100, theta_inf=50.0)
    assert (one.start, one.stop) == pytest.approx((0.5 * first.typical, 50.0))
    (one, first), _ = suggest_with_drives(net, x, 100, stop=0.8)
    assert (one.start, one.stop) == pytest.approx((0.4 * first.typical, 0.8 * first.typical))


def test_a_recurrent_binary_network_learns_with_the_suggested_thresholds():
    """Which of two groups of inputs is active."""
    generator = torch.Generator().manual_seed(0)
    net = build("12-32-2", recurrent=True, slope=0.5, surrogate_center="current", generator=generator)
    labels = torch.arange(16) % 2
    rates = torch.where(labels[:, None] == (torch.arange(12) < 6), 0.3, 0.02)
    x = (torch.rand(30, 16, 12, generator=generator) < rates).float()
    annealing = ThresholdAnnealing(net, suggest_schedules(net, x, iterations=25))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(25):
        loss = bitspike.cross_entropy_loss(net(x).spikes, labels)
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad.isfinite().all() for p in net.parameters())
        optimizer.step()
        annealing.step()
    assert (net(x).spikes.sum(0).argmax(1) == labels).float().mean() > 0.9


def test_it_is_public():
    assert bitspike.suggest_schedules is suggest_schedules


# ---- Errors


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (torch.zeros(0, 1, 8, 8), "empty"),
        (torch.zeros(4, 1, 8, 8), "silent"),
        (torch.ones(4, 8, 8), r"\[B, 1, 8, 8\].*\[4, 8, 8\]"),
        (torch.ones(1, 8, 8), r"\[B, 1, 8, 8\].*\[1, 8, 8\]"),
    ],
)
def test_a_wrong_batch_is_refused(batch, says):
    with pytest.raises(ValueError, match=says):
        suggest_schedules(conv(), batch, iterations=10)


def test_a_network_without_neurons_is_told():
    with pytest.raises(ValueError, match=r"measure_drive: the network has no neuron layer; bitspike's LIF"):
        suggest_schedules(nn.Linear(3, 2), torch.ones(2, 3), iterations=10)
    with pytest.raises(TypeError, match=r"measure_drive: net must be a torch\.nn\.Module, but is a function"):
        measure_drive(images, torch.ones(2, 3))


def test_a_layer_that_is_never_driven_is_named():
    net = build("3-4-2")
    with torch.no_grad():
        net.layers[1].synapse.weight.fill_(-1.0)
        net.layers[1].synapse.bias.zero_()
    with pytest.raises(ValueError, match=r"layers\.1\.lif"):
        measure_drive(net, torch.rand(8, 3))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"iterations": 0}, "iterations"),
        ({"iterations": 2.5}, "iterations"),
        ({"iterations": True}, "iterations"),
        ({"start": 0.0}, "start"),
        ({"start": 2.0, "stop": 3.0}, "start"),
        ({"start": 0.5, "stop": 0.5}, "stop"),
        ({"stop": -1.0}, "stop"),
        ({"within": 0.0}, "within"),
        ({"theta_inf": [1.0]}, "theta_inf .* 3, but 1"),
        ({"theta_inf": -1.0}, "theta_inf must be a number > 0"),
    ],
)
def test_wrong_options_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        suggest_schedules(conv(), images(), **{"iterations": 10, **wrong})


@pytest.mark.parametrize("theta_inf", ["12", torch.tensor([3.0, 4.0]), [1.0, -2.0, 3.0], True, float("nan")])
def test_a_final_threshold_that_is_no_number_is_told(theta_inf):
    with pytest.raises(ValueError, match="theta_inf must be a number > 0, or a list of one a layer, but has"):
        suggest_schedules(conv(0), images(0), iterations=10, theta_inf=theta_inf)


def test_a_batch_that_is_no_tensor_is_told():
    with pytest.raises(TypeError, match="batch must be a tensor, but is a ndarray"):
        measure_drive(conv(0), images(0).numpy())
