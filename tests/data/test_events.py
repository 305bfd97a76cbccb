"""Events of chosen samples: every column keeps what belongs to them, silent samples too."""

import numpy as np

from bitspike.data.events import Events


def test_chosen_samples_keep_their_events():
    t, offsets = np.array([1, 2, 3, 4, 5, 6]), np.array([0, 2, 2, 3, 6])
    events = Events(t, t * 10, t * 20, t % 2, offsets, np.arange(4), (200, 100), np.arange(4) + 7)
    found = events.select(np.array([True, True, False, True]))
    assert found.t.tolist() == [1, 2, 4, 5, 6]
    assert (found.x.tolist(), found.y.tolist()) == ([10, 20, 40, 50, 60], [20, 40, 80, 100, 120])
    assert found.p.tolist() == [1, 0, 0, 1, 0]
    assert found.offsets.tolist() == [0, 2, 2, 5]
    assert (found.labels.tolist(), found.groups.tolist(), found.sensor) == ([0, 1, 3], [7, 8, 10], (200, 100))


def test_columns_that_are_not_there_stay_away():
    t = np.arange(3)
    found = Events(t, t, None, None, np.array([0, 1, 3]), np.arange(2), (3,)).select(np.array([False, True]))
    assert (found.t.tolist(), found.y, found.p, found.groups) == ([1, 2], None, None, None)
