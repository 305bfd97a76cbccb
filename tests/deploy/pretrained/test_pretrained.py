"""The networks that come with the package: the files are those that the repository's runs give."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import bitspike
from bitspike.deploy.packed import read_packed_file
from bitspike.deploy.pretrained import pretrained, pretrained_names, pretrained_path
from bitspike.deploy.pretrained.cards import cards

HOME = Path(__file__).parents[3]
MAKE = HOME / "benchmarks" / "make_pretrained.py"
MOST_BYTES = 32_000


def make_pretrained():
    spec = importlib.util.spec_from_file_location("make_pretrained", MAKE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_what_the_runs_give(tmp_path):
    made = make_pretrained().make(tmp_path)
    assert sorted(made) == pretrained_names()
    for name, path in made.items():
        assert path.read_bytes() == pretrained_path(name).read_bytes(), f"{name}: run benchmarks/make_pretrained.py"
        assert path.stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", pretrained_names())
def test_the_engine_gives_the_check_vector(name):
    held = read_packed_file(pretrained_path(name))
    out = pretrained(name)(held.vector.input(held.model.input_shape), **steps_of(held))
    assert np.array_equal(out.scores[0], held.vector.scores)


def steps_of(held):
    return {"steps": held.vector.steps} if held.vector.kind == "pixels" else {}


def test_an_engine_and_the_run_s_network_answer_alike():
    net = bitspike.load_run(HOME / "results" / "best" / "mnist")
    x = torch.rand(2, 1, 28, 28)
    assert np.array_equal(pretrained("mnist/best")(x).spikes, net(x).spikes.detach().numpy())


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"is named 'mnist/bst': did you mean 'mnist/best'\? known are ") as caught:
        pretrained("mnist/bst")
    assert all(name in str(caught.value) for name in pretrained_names())


def test_the_cards_are_what_the_files_say():
    found = {card.name: card for card in cards()}
    assert sorted(found) == pretrained_names()
    shd = found["shd/best"]
    assert shd.data == "SHD regenerated"  # its accuracy is not that of the published set
    assert (shd.protocol, shd.seed, shd.test_samples) == ("paper", 0, 2264)
    for card in found.values():
        assert 0.5 < card.accuracy <= 1  # all of N-MNIST small's 100 test samples are right
        assert card.command.startswith("bitspike train ")
        assert card.bytes == pretrained_path(card.name).stat().st_size
