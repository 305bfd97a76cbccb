"""Labels of mixed samples: the shares of classes, and what the loss makes of them."""

import pytest
import torch
import torch.nn.functional as F

from bitspike.train.config import TrainConfig
from bitspike.train.labels import MixedLabels, class_shares, own_labels
from bitspike.train.losses import judge_entropy

OWN, OTHER, SHARE = torch.tensor([0, 2, 1]), torch.tensor([1, 2, 0]), torch.tensor([0.25, 0.5, 0.0])
MIXED = MixedLabels(OWN, OTHER, SHARE)


def test_plain_labels_have_one_class():
    assert class_shares(OWN, 3, torch.float64).equal(F.one_hot(OWN, 3).double())
    assert own_labels(OWN) is OWN


def test_mixed_labels_have_two():
    shares = class_shares(MIXED, 3, torch.float32)
    assert shares.tolist() == [[0.75, 0.25, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    assert own_labels(MIXED) is OWN


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_cross_entropy_of_mixed_labels_is_torchs_with_soft_targets(smoothing):
    spikes = (torch.rand(20, 3, 3, generator=torch.Generator().manual_seed(0)) < 0.4).double()
    loss, right = judge_entropy(spikes, MIXED, 10.0, smoothing)
    targets = class_shares(MIXED, 3, torch.float64)
    wanted = F.cross_entropy(spikes.mean(0) * 10, targets, label_smoothing=smoothing)
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-12)
    assert right.equal(spikes.sum(0).argmax(1) == OWN)  # by their own class
    plain = [judge_entropy(spikes, labels, 10.0, smoothing)[0] for labels in (OWN, MIXED._replace(share=0 * SHARE))]
    assert plain[0].equal(plain[1])


def test_the_loss_is_mixed_as_the_labels():
    spikes = (torch.rand(20, 3, 3, generator=torch.Generator().manual_seed(1)) < 0.4).double()
    half = MIXED._replace(share=torch.full((3,), 0.5))
    loss = judge_entropy(spikes, half, 10.0, 0.1)[0]
    own, other = (judge_entropy(spikes, labels, 10.0, 0.1)[0] for labels in (OWN, OTHER))
    assert loss.item() == pytest.approx(((own + other) / 2).item(), rel=1e-12)


@pytest.mark.parametrize("loss", ["count", "trace"])
def test_other_losses_cannot_be_mixed(loss):
    with pytest.raises(
        ValueError, match=f"train.mix belongs to train.loss = 'cross_entropy', but the loss is '{loss}'"
    ):
        TrainConfig(lr=0.1, mix=0.2, loss=loss)
