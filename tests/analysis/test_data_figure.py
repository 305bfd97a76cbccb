"""The figure of a data set: every kind of samples can be drawn."""

import pytest
import torch

from bitspike.analysis.data_figure import MOST_SAMPLES, DataFigure, SamplePanel, _short, draw_data


def figure(shape, samples=4, steps=12, classes=3, step_ms=5.0, splits=("train", "valid", "test")):
    values = torch.randint(0, 3, (samples, steps, *shape), generator=torch.Generator().manual_seed(0)).float()
    return DataFigure(
        "Mine $1: 4 samples",
        [SamplePanel(f"class {row} with a name that is very long", each) for row, each in enumerate(values)],
        False,
        [f"{row}" for row in range(classes)],
        {split: list(range(1, classes + 1)) for split in splits},
        {split: values.flatten(2).sum((0, 2)).double() for split in splits},
        {split: values.sum((0, 1)).double() for split in splits},
        step_ms,
    )


def images(shape, samples=2):
    panels = [SamplePanel("cat", torch.rand(shape)) for _ in range(samples)]
    return DataFigure("Images", panels, True, ["cat", "dog"], {"train": [2, 3], "test": [0, 0]}, {}, {})


@pytest.mark.parametrize(
    "shown",
    [
        figure((20,)),
        figure((20,), step_ms=None, splits=("train", "test")),
        figure((2, 20), samples=1),
        figure((2, 8, 9), samples=MOST_SAMPLES),
        figure((1, 8, 9), samples=5),
        figure((1, 8, 1), samples=2),
        figure((20,), classes=200),
        images((1, 8, 8)),
        images((3, 8, 8), samples=7),
        images((2, 8, 8)),
    ],
    ids=["row", "steps", "two polarities", "camera", "one polarity", "line", "many classes", "grey", "colour", "two"],
)
def test_every_kind_is_drawn(tmp_path, shown):
    path = draw_data(shown, tmp_path / "data.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    from matplotlib.image import imread

    height, width, _ = imread(path).shape
    assert width == 1210
    rows = 2 if len(shown.samples) > 4 else 1
    assert height == round(110 * (2.6 * rows + 3.2))


def test_silent_samples_are_drawn(tmp_path):
    shown = figure((2, 4, 4))
    silent = [SamplePanel("silent", torch.zeros_like(shown.samples[0].values))]
    empty = DataFigure(
        "Silent", silent, False, ["a"], {"train": [1]}, {"train": torch.zeros(12)}, {"train": torch.zeros(2, 4, 4)}
    )
    assert draw_data(empty, tmp_path / "silent.png").is_file()


def test_long_names_keep_their_end():
    assert _short("left arm", 12) == "left arm"
    assert _short("left arm up and down", 12) == "left ...down"
    assert _short("left arm up and back", 12) == "left ...back"
    assert len(_short("x" * 40, 13)) == 13
    assert _short("5 $", 12) == r"5 \$"
