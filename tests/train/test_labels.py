"""Labels of mixed samples: the shares of classes, and what the loss makes of them."""

import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from bitspike.train import losses
from bitspike.train.config import TrainConfig
from bitspike.train.labels import MixedLabels, balanced_weights, class_shares, own_labels, sample_weights
from bitspike.train.losses import judge_counts, judge_entropy, judge_scores
from bitspike.train.tasks import LOSSES

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


def test_balanced_weights_by_hand():
    # 6 samples, 3 classes present of 4: 6 / (3 * 3), 6 / (3 * 2), 6 / (3 * 1), and 1 for none
    weights = balanced_weights(torch.tensor([0, 0, 0, 2, 2, 3]), 4)
    torch.testing.assert_close(weights, torch.tensor([2 / 3, 1.0, 1.0, 2.0]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_the_mean_weight_is_one_and_all_classes_weigh_alike(labels):
    labels = torch.tensor(labels)
    of_samples = sample_weights(labels, balanced_weights(labels, 5))
    assert of_samples.mean().item() == pytest.approx(1, rel=1e-5)
    sums = torch.zeros(5).index_add(0, labels, of_samples)[labels.unique()]
    torch.testing.assert_close(sums, sums[:1].expand_as(sums))


def test_a_mixed_sample_weighs_by_its_shares():
    found = sample_weights(MIXED, torch.tensor([1.0, 2.0, 8.0]))
    assert found.tolist() == [0.75 * 1 + 0.25 * 2, 8.0, 2.0]


WEIGHTS = torch.tensor([0.5, 1.0, 4.0])


def test_weights_count_samples_in_the_cross_entropy():
    spikes = (torch.rand(20, 3, 3, generator=torch.Generator().manual_seed(0)) < 0.4).float()
    alone = torch.stack([judge_entropy(spikes[:, [i]], OWN[[i]], 10.0, 0.1)[0] for i in range(3)])
    loss, right = judge_entropy(spikes, OWN, 10.0, 0.1, WEIGHTS)
    torch.testing.assert_close(loss, (alone * WEIGHTS[OWN]).mean())
    assert right.equal(judge_entropy(spikes, OWN, 10.0, 0.1)[1])
    scores = spikes.mean(0)
    torch.testing.assert_close(judge_scores(scores, OWN, 10.0, 0.1, WEIGHTS)[0], loss)


def test_weights_count_samples_in_the_count_loss():
    spikes = (torch.rand(20, 3, 3, generator=torch.Generator().manual_seed(0)) < 0.4).float()
    alone = torch.stack([judge_counts(spikes[:, [i]], OWN[[i]], 0.8, 0.2)[0] for i in range(3)])
    loss, right = judge_counts(spikes, OWN, 0.8, 0.2, WEIGHTS)
    torch.testing.assert_close(loss, (alone * WEIGHTS[OWN]).mean())
    assert right.equal(judge_counts(spikes, OWN, 0.8, 0.2)[1])
    torch.testing.assert_close(judge_counts(spikes, OWN, 0.8, 0.2, torch.ones(3))[0], alone.mean())


@pytest.mark.parametrize("loss", ["count", "cross_entropy"])
def test_the_tasks_take_the_weights(loss):
    output = SimpleNamespace(spikes=(torch.rand(9, 3, 3, generator=torch.Generator().manual_seed(1)) < 0.4).float())
    config = TrainConfig(lr=1.0, loss=loss)
    plain, weighted = (LOSSES[loss].make(config, 1.0, weights) for weights in (None, WEIGHTS))
    assert weighted.loss(output, OWN) == weighted.judge(output, OWN)[0] != plain.loss(output, OWN)


def test_the_trace_has_no_classes_to_weigh():
    with pytest.raises(ValueError, match=r"train\.class_weights belongs to train\.loss = 'count' or 'cross_entropy'"):
        TrainConfig(lr=1.0, loss="trace", class_weights="balanced")


def test_weighted_losses_leave_the_fused_kernels_alone(monkeypatch):
    spikes = (torch.rand(20, 3, 3, generator=torch.Generator().manual_seed(0)) < 0.4).float()
    counts, scores = judge_counts(spikes, OWN, 0.8, 0.2, WEIGHTS), judge_scores(spikes.mean(0), OWN, 10.0, 0.1, WEIGHTS)
    monkeypatch.setattr(losses, "fused_on_gpu", lambda device: True)
    monkeypatch.setitem(sys.modules, "bitspike.ops.loss.triton", None)  # importing it raises
    monkeypatch.delattr("bitspike.ops.loss.triton", raising=False)
    assert judge_counts(spikes, OWN, 0.8, 0.2, WEIGHTS)[0] == counts[0]
    assert judge_scores(spikes.mean(0), OWN, 10.0, 0.1, WEIGHTS)[0] == scores[0]
    with pytest.raises(ImportError):
        judge_counts(spikes, OWN, 0.8, 0.2)
