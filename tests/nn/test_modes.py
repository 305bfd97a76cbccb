"""What looks at a network in evaluation mode gives every module the mode back that it had, also after an error."""

import pytest
import torch

from bitspike import build
from bitspike.analysis.activity import measure_activity
from bitspike.data.samples import Images
from bitspike.train.evaluation import evaluate
from bitspike.train.tasks import CountTask


def samples(height=6):
    return Images(torch.randint(0, 256, (8, 1, height, 6), dtype=torch.uint8), torch.arange(8) % 3)


LOOKS = {
    "evaluate": lambda net, data: evaluate(net, data, CountTask(), batch=4),
    "measure_activity": lambda net, data: measure_activity(net, [data.batch(torch.arange(8))[0]], steps=5, bins=5),
}


@pytest.mark.parametrize("height", [6, 7])
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_frozen_batch_norm_stays_frozen(look, height):
    net = build("2Conv3-AP2-8Dense3", (1, 6, 6), norm="step", dropout=0.5, steps=5)
    net.layers[0].norm.eval()
    before = [module.training for module in net.modules()]
    if height == 6:
        look(net, samples())
    else:
        with pytest.raises(ValueError, match="input must be"):
            look(net, samples(height))
    assert [module.training for module in net.modules()] == before
