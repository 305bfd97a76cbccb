"""The pictures of a search, and the plain arrays that they are made of."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.analysis.search_data import SearchAxis, SearchObjective, SearchTrials
from bitspike.analysis.search_figures import draw_search, draw_slices, front, history, importances, slices
from bitspike.analysis.search_parallel import parallel

PNG = b"\x89PNG\r\n\x1a\n"


def search(count=40, *, second=True):
    """Trials whose accuracy rises with the learning rate; one in eight is at chance, one in ten was pruned."""
    rates = [10 ** (-4 + 3 * ((row * 0.618) % 1)) for row in range(count)]
    norms = [("step", "none", None)[row % 3] for row in range(count)]
    accuracy = [10.0 if row % 8 == 7 else 90 + 2 * math.log10(rate) for row, rate in enumerate(rates)]
    objectives = [SearchObjective("accuracy, %", accuracy)]
    if second:
        objectives.append(SearchObjective("spikes a sample", [1e4 * rate for rate in rates], maximize=False))
    axes = [
        SearchAxis("train.lr", rates, 1e-4, 1e-1, log=True),
        SearchAxis("net.$beta$", [0.5] * count, 0.0, 1.0),
        SearchAxis("net.norm", norms, choices=["none", "step"]),
    ]
    pruned = [row % 10 == 9 for row in range(count)]
    return SearchTrials("a $search$", list(range(count)), pruned, objectives, axes, {"train.lr": 0.9, "net.norm": 0.1})


def test_places_on_an_axis():
    lr, beta, norm = search().axes
    assert lr.place(1e-4) == 0
    assert lr.place(1e-1) == 1
    assert lr.place(10**-2.5) == pytest.approx(0.5)
    assert beta.place(0.25) == 0.25
    assert [norm.place(value) for value in ("none", "step", None)] == [0, 1, None]


def test_pruned_trials_are_neither_best_nor_on_the_front():
    trials = search()
    pruned = {row for row, held in enumerate(trials.pruned) if held}
    assert not pruned & {*trials.ranked(), *trials.front()}
    values = trials.objectives[0].values
    expected = max(value for row, value in enumerate(values) if row not in pruned)
    assert trials.best_so_far()[-1] == values[trials.ranked()[0]] == expected


def beats(one, other, objectives):
    """The definition: better in one objective, and worse in none."""
    pairs = [(held, held.values[one], held.values[other]) for held in objectives]
    return any(held.better(a, b) for held, a, b in pairs) and not any(held.better(b, a) for held, a, b in pairs)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_the_front_holds_what_nothing_beats(points, first, second):
    objectives = [
        SearchObjective("accuracy", [float(a) for a, _, _ in points], first),
        SearchObjective("spikes", [float(b) for _, b, _ in points], second),
    ]
    pruned = [held for _, _, held in points]
    rows = [row for row, held in enumerate(pruned) if not held]
    expected = [row for row in rows if not any(beats(other, row, objectives) for other in rows)]
    trials = SearchTrials("a", list(range(len(points))), pruned, objectives, [])
    assert trials.front() == expected
    assert trials.ranked()[:1] == [row for row in trials.ranked() if row in expected][:1]  # the best is on it


def test_all_pictures_are_drawn(tmp_path):
    files = draw_search(search(), tmp_path / "pictures")
    assert [file.name for file in files] == [
        "history.png",
        "slices.png",
        "parallel.png",
        "importances.png",
        "front.png",
    ]
    assert all(file.read_bytes().startswith(PNG) for file in files)
    assert draw_slices(search(), tmp_path / "one.png").read_bytes().startswith(PNG)


def test_trials_at_chance_do_not_flatten_the_picture():
    axes = history(search(80)).axes[0]
    assert axes.get_ylim()[0] > 80
    labels = {held.get_label() for held in axes.collections}
    assert labels == {"trial", "pruned", "worse than shown"}
    assert sum(len(held.get_offsets()) for held in axes.collections) == 80


def test_a_slice_has_the_trials_that_drew_its_parameter():
    lr, beta, norm, *rest = slices(search()).axes
    drawn = sum(len(held.get_offsets()) for held in norm.collections)
    assert drawn == sum(value is not None for value in search().axes[2].values)
    assert lr.get_xscale() == "log"
    assert lr.get_xlim()[0] < 1e-4 < 1e-1 < lr.get_xlim()[1]
    assert beta.get_title(loc="left") == "net.$beta$"
    assert not any(axes.get_visible() for axes in rest)


def test_lines_pass_through_what_each_trial_drew():
    grey, coloured = parallel(search()).axes[0].collections
    trials = search()
    assert len(grey.get_segments()) + len(coloured.get_segments()) == len(trials.numbers)
    best = trials.ranked()[0]
    line = coloured.get_segments()[-1]  # drawn last, above the others
    places = [axis.place(axis.values[best]) for axis in trials.axes]
    assert [tuple(point) for point in line] == [(at, place) for at, place in enumerate(places) if place is not None]


@pytest.mark.parametrize("draw", [history, slices, parallel, front])
def test_one_trial_is_enough(draw):
    draw(search(1)).canvas.draw()


def test_bars_are_in_percent():
    axes = importances(search()).axes[0]
    assert sorted(bar.get_width() for bar in axes.patches) == [10, 90]
