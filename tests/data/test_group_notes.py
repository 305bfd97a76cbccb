"""Notes about groups: one that chooses the epoch alone, and those that a file does not name."""

import pytest
import torch

from bitspike.data import Dataset, Images, profile
from bitspike.data.group_notes import group_notes


def samples(groups, seed):
    images = torch.rand(12, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    groups = None if groups is None else torch.arange(12) % len(groups) + groups[0]
    return Images(images, torch.arange(12) % 3, groups)


def notes(train, valid, test, **more):
    """The notes for groups that are ranges of numbers; None where they are not known."""
    parts = {"train": samples(train, 0), "valid": samples(valid, 1), "test": samples(test, 2)}
    data = Dataset("made", "Made", 3, parts["train"], parts["test"], group_names="persons")
    return group_notes(profile(data, parts), **more)


def test_one_group_that_chooses_the_epoch():
    (line,) = notes([0, 1, 2], [3], [4, 5])
    assert line == (
        "the epoch is chosen by one of 4 persons alone (3); data.validation_groups, or a larger "
        "data.validation_share, holds out more"
    )
    (line,) = notes([0, 1, 2], [3], [4, 5], from_file=True)
    assert line.endswith("(3); more of them in data.validation_file make the choice safer")


@pytest.mark.parametrize(
    ("train", "valid", "more"),
    [
        ([0, 1, 2], [3, 4], {}),
        ([0], [1], {}),  # there is no other that could be held out
        ([0, 1, 2], [3], {"chooses": False}),  # the last epoch is kept
    ],
)
def test_nothing_to_note(train, valid, more):
    assert notes(train, valid, [5, 6], **more) == []
    assert notes(None, None, None) == []


def test_groups_that_are_not_known_in_every_split():
    (line,) = notes([0, 1], [2, 3], None)
    assert line == (
        "the test samples have no groups: it cannot be checked whether a group is in two splits; give every file an "
        "array groups"
    )
    (line,) = notes(None, None, [0, 1])
    assert line.startswith("the training, validation samples have no groups")
