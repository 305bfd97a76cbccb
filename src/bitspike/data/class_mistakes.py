"""Mistakes in classes and groups. Each rule is a function of a profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from bitspike.data.finding import Finding, listed, split_words
from bitspike.data.profiles import Profile

IMBALANCE = 3.0  # samples of the largest class for each sample of the smallest
TYPING_ERROR = 10  # samples of a class for each sample of one with a similar name
LEAST_LETTERS = 4  # shorter names may well differ in one
MOST_COMPARED = 200  # classes
ABOVE_EVEN = 1.5  # the largest class's share, in shares of a class in a balanced set


def one_class(profile: Profile) -> Iterator[Finding]:
    """All samples of the training or of the test split are of one class."""
    for name, split in profile.splits.items():
        if finding := one_class_finding(name, split.by_class, profile.title, profile.class_names):
            yield finding


def one_class_finding(split: str, by_class: Sequence[int], title: str, class_names: Sequence[str]) -> Finding | None:
    """Return the finding that all samples of a split are of one class; `title` is that of the data set.

    A few validation samples may well be of one class: what they lack is a finding about missing classes.
    """
    there = [at for at, count in enumerate(by_class) if count]
    if split == "valid" or len(there) != 1:
        return None
    return Finding(
        "one class",
        split,
        f"all {by_class[there[0]]:,} {split_words(split)} samples of {title} are of one class, label "
        f"{class_names[there[0]]}: accuracy says nothing",
        "look at the labels",
    )


def missing_classes(profile: Profile) -> Iterator[Finding]:
    """A class has no training sample, or it has some but none in another split."""
    trained = profile.splits["train"].by_class
    for name, split in profile.splits.items():
        finding = missing_finding(name, split.by_class, trained, profile.class_names)
        if finding and not one_class_finding(name, split.by_class, profile.title, profile.class_names):
            yield finding


def missing_finding(
    split: str, by_class: Sequence[int], trained: Sequence[int], class_names: Sequence[str]
) -> Finding | None:
    """Return the finding that classes have no sample in a split; `trained` are the training samples of each class."""
    wanted = [split == "train" or count > 0 for count in trained]
    missing = [class_names[at] for at, count in enumerate(by_class) if wanted[at] and not count]
    if not missing:
        return None
    one = len(missing) == 1
    return Finding(
        "missing classes",
        split,
        f"{'class' if one else 'classes'} {listed(missing)} (of {len(trained)}) {'has' if one else 'have'} no "
        f"{split_words(split)} sample",
        "a network can't learn what it is not shown: add samples, or number the labels anew"
        if split == "train"
        else "the result says nothing about what is missing",
    )


def imbalance(profile: Profile) -> Iterator[Finding]:
    """The largest class has many times the samples of the smallest."""
    split = profile.splits["train"]
    counts = [count for count in split.by_class if count]
    largest, share = split.majority
    if len(counts) < 2 or max(counts) < IMBALANCE * min(counts) or share < ABOVE_EVEN / len(counts):
        return
    smallest = split.by_class.index(min(counts))
    weigh = "" if profile.class_weights else '; train.class_weights = "balanced" helps'
    yield Finding(
        "imbalance",
        "train",
        f"{share:.1%} of the training samples are of class {profile.class_names[largest]} "
        f"({max(counts):,}; class {profile.class_names[smallest]} has {min(counts):,})",
        f"compare an accuracy with {share:.1%}, not with {1 / len(counts):.1%}{weigh}",
    )


def similar_names(profile: Profile) -> Iterator[Finding]:
    """The names of two classes differ in case or spaces alone; or in one letter, and one of the classes is small."""
    counts = [sum(split.by_class[at] for split in profile.splits.values()) for at in range(len(profile.class_names))]
    sizes = dict(zip(profile.class_names, counts, strict=True))
    names = sorted(profile.class_names[:MOST_COMPARED], key=sizes.__getitem__)
    for at, name in enumerate(names):
        same = [other for other in names[at + 1 :] if _plain(other) == _plain(name)]
        large = (other for other in names[at + 1 :] if sizes[other] >= TYPING_ERROR * sizes[name])
        other = next(iter(same), None) or next((each for each in large if _differ_in_a_letter(name, each)), None)
        if other is not None:
            yield Finding(
                "similar names",
                "train",
                f"class {name!r} has {sizes[name]:,} {'sample' if sizes[name] == 1 else 'samples'}, class {other!r} "
                f"{sizes[other]:,}",
                "are they one class (a typing error)? If so, write one name for both",
            )


def _plain(name: str) -> str:
    """Return a name without what is easily mistyped: case and spaces."""
    return "".join(name.lower().split())


def _differ_in_a_letter(first: str, second: str) -> bool:
    """Return whether one wrong, missing or extra letter, or two in the wrong order, make one name of the other."""
    if min(len(first), len(second)) < LEAST_LETTERS or re.findall(r"\d+", first) != re.findall(r"\d+", second):
        return False
    if abs(len(first) - len(second)) > 1:
        return False
    start = _equal_letters(first, second)
    first, second = first[start:], second[start:]
    end = _equal_letters(first[::-1], second[::-1])
    rests = [name[: len(name) - end] for name in (first, second)]
    return max(map(len, rests)) == 1 or (len(rests[0]) == 2 and rests[0] == rests[1][::-1])


def _equal_letters(first: str, second: str) -> int:
    """Return how many letters the names have in common at their beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


# ---- Groups


def shared_groups(profile: Profile) -> Iterator[Finding]:
    """Samples of one group, such as a person, are in two splits."""
    groups = {name: split.groups for name, split in profile.splits.items()}
    for name in groups:
        if finding := shared_groups_finding(name, groups, profile.group_names):
            yield finding


def shared_groups_finding(
    split: str, groups: Mapping[str, Sequence[int | str] | None], group_names: str
) -> Finding | None:
    """Return the finding that a split has groups of the training samples; test samples also those of validation."""
    for other in {"valid": ["train"], "test": ["train", "valid"]}.get(split, []):
        known = set(groups.get(other) or ())
        if shared := [group for group in groups[split] or () if group in known]:
            return Finding(
                "shared groups",
                split,
                f"{group_names or 'groups'} {listed(shared)} are among the {split_words(other)} and the "
                f"{split_words(split)} samples: the accuracy is not that of new ones",
                "give each of them to one file alone",
            )
    return None
