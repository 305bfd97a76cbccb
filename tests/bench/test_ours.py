"""Our own step in the benchmark is the trainer's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bitspike.bench.cases import growth
from bitspike.bench.contender import using
from bitspike.bench.ours import ours, samples_of
from bitspike.bench.problem import prepare
from helpers.bench import CPU, TINY, tiny


@pytest.mark.parametrize("case", TINY[:3], ids=lambda case: case.name)
def test_our_step_is_the_trainers(case):
    contender = ours(prepare(case, CPU))
    trainer = contender.step.trainer
    before = [p.detach().clone() for p in trainer.net.parameters()]
    first = trainer.thetas()
    with using(contender.arithmetic, CPU):
        for _ in range(3):
            contender.step()
    assert trainer.progress.step == 3
    assert all(b > a for a, b in zip(first, trainer.thetas(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.net.parameters(), strict=True))


def test_our_steps_go_on_where_an_epoch_ends():
    contender = ours(prepare(tiny("shd"), CPU))
    contender.step()
    trainer = contender.step.trainer
    trainer.progress.iteration = trainer.work.count
    contender.step()
    assert trainer.progress.iteration == 1
    assert trainer.progress.step == 2


def test_our_single_layer_takes_counts_and_leaves_gradients():
    problem = prepare(tiny("layer2k"), CPU)
    loss = ours(problem).step()
    assert problem.x.dtype == torch.uint8
    assert 0 < loss.item() <= 8 * 2 * 24
    assert loss.item() == loss.item() // 1


def test_training_samples_are_several_batches_and_one_for_growth():
    assert len(samples_of(prepare(tiny("shd"), CPU))) == 8
    assert len(samples_of(prepare(replace(growth()[0], steps=4, batch=2), CPU))) == 2
