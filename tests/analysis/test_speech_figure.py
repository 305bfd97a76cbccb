"""The figure of what a network hears."""

import numpy as np
import pytest
import torch

from bitspike.analysis.speech_figure import HeardSpikes, draw_speech


def panel(output, answer=1):
    layers = {"layers.0.lif": (torch.rand(20, 6) < 0.3).float(), "layers.1.lif": output}
    return HeardSpikes("word", np.arange(50.0), np.arange(50), layers, torch.rand(20, 3), answer, 200.0)


FIRES, SILENT = torch.ones(20, 3), torch.zeros(20, 3)


@pytest.mark.parametrize("panels", [[panel(FIRES)], [panel(SILENT, None)], [panel(FIRES), panel(SILENT)]])
def test_a_column_for_each_recording(tmp_path, panels):
    path = draw_speech(panels, ["a", "b", "c"], tmp_path / "heard.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    from matplotlib.image import imread

    height, width, _ = imread(path).shape
    assert height > 400
    assert width == (702 if len(panels) == 1 else 1066)


def test_too_many_recordings(tmp_path):
    with pytest.raises(ValueError, match="room for 6 recordings, but there are 7"):
        draw_speech([panel(FIRES)] * 7, ["a", "b", "c"], tmp_path / "heard.png")
    assert not list(tmp_path.iterdir())
