"""Delays are sharpened over all iterations, and stay within their bounds."""

import pytest
import torch

from bitspike import build
from bitspike.data.samples import frames_from_dense
from bitspike.nn import Delay
from bitspike.train.config import TrainConfig
from bitspike.train.tricks import make_tricks, setting_for, tricks_for
from bitspike.train.tricks.clips import ClipWeights
from bitspike.train.tricks.delays import SharpenDelays, delays_of
from bitspike.train.tricks.trick import Setup


def setup(*longest, iterations=40, **settings):
    net = build("6-5-2")
    for i, each in enumerate(longest):
        net.layers[i].delay = Delay((6, 5)[i], each)
    samples = frames_from_dense(torch.ones(4, 3, 6, dtype=torch.long), torch.zeros(4))
    return Setup(net, samples, TrainConfig(lr=0.1, **settings), seed=0, iterations=iterations)


def test_only_a_network_with_delays_has_the_trick():
    assert make_tricks(setup()) == []
    assert [type(trick) for trick in make_tricks(setup(4))] == [SharpenDelays]
    config = TrainConfig(lr=0.1)
    assert (tricks_for(config), tricks_for(config, delayed=True)) == ([], [SharpenDelays])
    assert setting_for(SharpenDelays, config, delayed=True) == "net.delays"
    assert setting_for(SharpenDelays, config, delayed=False) == ""
    assert SharpenDelays.lasts_all_epochs


def test_the_width_falls_from_half_the_longest_in_the_soft_share_then_stays():
    trick = SharpenDelays(setup(16, 4, delay_soft=0.5, delay_width=0.5))
    assert trick.values(0) == [8.0, 2.0]
    assert trick.values(10) == pytest.approx([2.0, 1.0])
    assert trick.values(5) == pytest.approx([4.0, 2 * 0.25**0.25])
    assert trick.values(20) == trick.values(39) == [0.5, 0.5]


def test_the_defaults_are_three_quarters_and_three_tenths():
    trick = SharpenDelays(setup(25, iterations=400))
    assert trick.values(0) == [12.5]
    assert trick.values(150) == pytest.approx([(12.5 * 0.3) ** 0.5])
    assert trick.values(299)[0] > 0.3
    assert trick.values(300) == [0.3]


def test_a_width_never_starts_below_its_end():
    trick = SharpenDelays(setup(1, delay_width=0.75))
    assert trick.values(0) == trick.values(13) == trick.values(30) == [0.75]


def test_its_tensors_are_the_widths_that_the_network_uses():
    made = setup(16, 4)
    trick = SharpenDelays(made)
    for tensor in trick.tensors():
        tensor.fill_(0.125)
    assert [delay.width.item() for delay in delays_of(made.net)] == [0.125, 0.125]


def test_delays_are_clamped_after_the_update():
    made = setup(16, 4)
    trick = SharpenDelays(made)
    first, second = delays_of(made.net)
    with torch.no_grad():
        first.delays.copy_(torch.tensor([-1.0, 0.0, 3.5, 16.0, 17.0, 99.0]))
        second.delays.copy_(torch.tensor([-3.0, 3.0, 4.0, 4.5, 17.0]))
    trick.after_update()
    assert first.delays.tolist() == [0.0, 0.0, 3.5, 16.0, 16.0, 16.0]
    assert second.delays.tolist() == [0.0, 3.0, 4.0, 4.0, 4.0]


def test_a_clip_of_all_weights_leaves_delays_alone():
    made = setup(16, weight_clip=0.5)
    with torch.no_grad():
        for p in made.net.parameters():
            p.fill_(9.0)
    ClipWeights(made).on_gradients(torch.zeros(1))
    for name, p in made.net.named_parameters():
        assert p.unique().tolist() == [9.0 if name.endswith("delays") else 0.5]
