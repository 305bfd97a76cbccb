"""Notes about groups: what a person should know of them that is no mistake."""

from __future__ import annotations

from bitspike.data.finding import listed, split_words
from bitspike.data.profiles import Profile


def group_notes(profile: Profile, *, from_file: bool = False, chooses: bool = True) -> list[str]:
    """Return a line where one group alone chooses the epoch, and one where some splits do not name their groups.

    `from_file` says that the validation samples have a file of their own, `chooses` that they choose the epoch.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> from bitspike.data.group_notes import group_notes
        >>> images, labels = torch.rand(6, 1, 4, 4), torch.arange(6) % 2
        >>> train = bitspike.data.Images(images[:4], labels[:4], torch.tensor([0, 0, 1, 1]))
        >>> test = bitspike.data.Images(images[4:], labels[4:])
        >>> data = bitspike.data.Dataset("mine", "Mine", 2, train, test)
        >>> group_notes(bitspike.data.profile(data))[0][:63]
        'the test samples have no groups: it cannot be checked whether a'
    """
    return [*(_one_group(profile, from_file) if chooses else []), *_unknown_groups(profile)]


def _one_group(profile: Profile, from_file: bool) -> list[str]:
    """Return a line if the validation samples are of one group, and others could be added."""
    valid, train = profile.splits.get("valid"), profile.splits["train"]
    if valid is None or valid.groups is None or len(valid.groups) != 1:
        return []
    if from_file:
        more = "more of them in data.validation_file make the choice safer"
    elif train.groups is not None and len(train.groups) > 1:
        more = "data.validation_groups, or a larger data.validation_share, holds out more"
    else:
        return []
    others = {*valid.groups, *(train.groups or ())}
    names = profile.group_names or "groups"
    return [f"the epoch is chosen by one of {len(others)} {names} alone ({valid.groups[0]}); {more}"]


def _unknown_groups(profile: Profile) -> list[str]:
    """Return a line if some splits name their groups and others do not."""
    unknown = [split_words(name) for name, split in profile.splits.items() if split.groups is None]
    if not unknown or len(unknown) == len(profile.splits):
        return []
    return [
        f"the {listed(unknown)} samples have no groups: it cannot be checked whether a group is in two splits; give "
        "every file an array groups"
    ]
