import pytest
import torch

from bitspike.analysis.timing import timing_statistics


def at(*times: int, steps: int = 10) -> torch.Tensor:
    row = torch.zeros(steps)
    row[list(times)] = 1
    return row


def test_statistics_by_hand():
    # [iterations, time, seeds]: two iterations, three seeds, target 7
    first = torch.stack([at(7), at(2, 3), at()], 1)
    second = torch.stack([at(6), at(7, 8), at()], 1)
    s = timing_statistics(torch.stack([first, second]), target=7, last=2)
    assert s.exact == pytest.approx(2 / 6)
    assert s.near == pytest.approx(3 / 6)
    assert s.due == pytest.approx(3 / 6)
    assert s.alone == pytest.approx(2 / 6)
    assert s.active == pytest.approx(4 / 6)
    assert s.spikes == pytest.approx(6 / 6)
    assert s.first_spike == pytest.approx((7 + 2 + 6 + 7) / 4)
    assert s.seeds_near == 1
    assert s.seeds_silent == 1


def test_a_spike_is_due_from_the_step_before_the_crossing_to_the_one_after_the_target():
    spikes = torch.stack([at(3), at(4), at(8), at(9)], 1)[None]
    assert timing_statistics(spikes, target=7, last=1, crossing=5).due == 0.5


def test_only_the_last_iterations_count():
    spikes = torch.stack([at(7)[:, None], at()[:, None]])
    assert timing_statistics(spikes, target=7, last=1).active == 0
    assert timing_statistics(spikes, target=7, last=2).active == 0.5


def test_silence_has_no_first_spike():
    s = timing_statistics(torch.zeros(2, 10, 3), target=7, last=2)
    assert s.first_spike is None
    assert s.seeds_silent == 3


def test_a_target_at_the_edge_has_one_neighbour():
    assert timing_statistics(at(9)[None, :, None], target=0, last=1).near == 0
    assert timing_statistics(at(0)[None, :, None], target=0, last=1).near == 1


@pytest.mark.parametrize(
    ("target", "last", "says"), [(10, 1, "target must be in 0..9"), (7, 3, r"last must be in 1..2")]
)
def test_what_does_not_fit_is_said(target, last, says):
    with pytest.raises(ValueError, match=says):
        timing_statistics(torch.zeros(2, 10, 1), target=target, last=last)
