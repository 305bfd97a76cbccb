"""A classification as lines of text: the figures of each class, and the confusion matrix within 80 columns."""

from __future__ import annotations

from bitspike.analysis.classification import Classification

WIDTH = 80
MOST_CLASSES = 20
SHORTEST_NAME = 16  # columns that names get at least
FEW = 10  # lines, where there are more classes


def class_lines(found: Classification) -> list[str]:
    """Return a line for each class with its precision, recall, F1 and samples; of many classes the worst ones.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.classification import classify
        >>> from bitspike.analysis.confusion_text import class_lines
        >>> for line in class_lines(classify(torch.eye(2)[[0, 1, 1]], torch.tensor([0, 1, 0]), ["cat", "dog"])):
        ...     print(line)
        class   precision  recall      F1  samples
        0 cat      100.0%   50.0%   66.7%        2
        1 dog       50.0%  100.0%   66.7%        1
    """
    labels = list(range(len(found.names)))
    if few := len(labels) > MOST_CLASSES:
        known = [label for label in labels if found.figures[label].f1 is not None]
        labels = sorted(known, key=lambda label: found.figures[label].f1 or 0.0)[:FEW]
    rows = _row_names(found, 40)
    width = max(5, *(len(rows[label]) for label in labels))
    lines = [f"{'class':<{width}}   precision  recall      F1  samples"]
    for label in labels:
        figures = found.figures[label]
        lines.append(
            f"{rows[label]:<{width}}   {_percent(figures.precision):>9}  {_percent(figures.recall):>6}  "
            f"{_percent(figures.f1):>6}  {figures.support:>7}"
        )
    if few:
        lines.append(f"these have the lowest F1; --json has all {len(found.names)} classes")
    return lines


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def confusion_lines(found: Classification) -> list[str]:
    """Return the confusion matrix in at most 80 columns; of more than 20 classes the most frequent mistakes.

    Counts are shown if they fit, else percents of the class's samples. A dot is 0.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.classification import classify
        >>> from bitspike.analysis.confusion_text import confusion_lines
        >>> for line in confusion_lines(classify(torch.eye(2)[[0, 1, 1]], torch.tensor([0, 1, 0]), ["cat", "dog"])):
        ...     print(line)
        confusion matrix: samples of each class (rows) by answer (columns)
               0 1
        0 cat  1 1
        1 dog  . 1
    """
    if len(found.names) > MOST_CLASSES:
        return _mistakes(found)
    silent = bool(found.confusion[:, -1].any())
    columns = [*_numbers(found), *["-"] * silent]
    counts = found.confusion[:, : len(columns)].tolist()
    width = 1 + max(len(str(value)) for row in [*counts, columns] for value in row)
    title = "confusion matrix: samples of each class (rows) by answer (columns)"
    cells = [[str(value) if value else "." for value in row] for row in counts]
    if WIDTH - width * len(columns) < SHORTEST_NAME:
        # Three columns are enough: beside 100 there are only dots.
        width, title = 3, "confusion matrix: % of each class (rows) by answer (columns); counts: --json"
        cells = [[_rounded(value, sum(row)) for value in row] for row in counts]
    names = _row_names(found, WIDTH - 1 - width * len(columns))
    indent = max(map(len, names)) + 1
    lines = [title, " " * indent + "".join(f"{column:>{width}}" for column in columns)]
    for name, row in zip(names, cells, strict=True):
        drawn = "".join(f"{cell:>{width}}" for cell in row).replace(".100", " 100")  # which is no decimal point
        lines.append(f"{name:<{indent}}{drawn}")
    return [*lines, "- is no answer: no output neuron fired"] if silent else lines


def _rounded(count: int, whole: int) -> str:
    return "." if not count else f"{100 * count / whole:.0f}"


def _mistakes(found: Classification) -> list[str]:
    """Return the most frequent confusions, a line each, and how to see all."""
    classes = len(found.names)
    wrong = found.confusion.clone()
    wrong[:, :classes].fill_diagonal_(0)
    names = _row_names(found, 24)
    order = wrong.flatten().sort(descending=True, stable=True).indices[:FEW].tolist()
    lines = [f"the most frequent mistakes; the matrix of all {classes} classes: --json, or --out FILE.png"]
    for place in order:
        row, column = divmod(place, classes + 1)
        if count := int(wrong[row, column]):
            taken = "no answer" if column == classes else f"taken for {names[column]}"
            lines.append(f"{count:>6} of {found.figures[row].support:<6} {names[row]:<24} {taken}")
    return lines


def _row_names(found: Classification, most: int) -> list[str]:
    """Return "3 dog" for each class, or "3" where its name is no more than that, shortened to `most` characters."""
    numbers = _numbers(found)
    width = max(map(len, numbers))
    whole = [
        f"{number:>{width}}" + (f" {name}" if name != number else "")
        for number, name in zip(numbers, found.names, strict=True)
    ]
    return [name if len(name) <= most else f"{name[: most - 2]}.." for name in whole]


def _numbers(found: Classification) -> list[str]:
    """Return the number of each class: its label in the user's files where that is one, else that of its output."""
    outputs = [str(output) for output in range(len(found.names))]
    own = list(found.file_labels)
    return (
        [*own, *(f"#{output}" for output in outputs[len(own) :])] if all(map(str.isdecimal, own)) and own else outputs
    )
