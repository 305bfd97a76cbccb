"""The picture of a confusion matrix. A classification in, a PNG file out."""

from __future__ import annotations

from pathlib import Path

from bitspike.analysis.classification import Classification
from bitspike.analysis.picture_files import require_picture
from bitspike.files import write_atomically

MOST_NUMBERS = 30  # classes up to which every cell has its count


def draw_confusion(found: Classification, path: Path, title: str) -> Path:
    """Draw the confusion matrix: a cell is as dark as its share of the class's samples, with its count in it."""
    require_picture(path)
    from matplotlib.figure import Figure

    classes = len(found.names)
    silent = bool(found.confusion[:, -1].any())
    counts = found.confusion if silent else found.confusion[:, :classes]
    shares = counts.double() / counts.sum(1, keepdim=True).clamp(min=1)
    side = min(max(0.42 * classes, 2.4), 14.0)
    figure = Figure(figsize=(side + 2.2, side + 1.6), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    size = 8 if classes <= 40 else 5
    columns = [*found.names, *["no answer"] * silent]
    turned = 90 if max(map(len, columns)) > 3 else 0
    # A name with dollars is no formula.
    axes.set_xticks(range(len(columns)), columns, fontsize=size, rotation=turned, parse_math=False)
    axes.set_yticks(range(classes), found.names, fontsize=size, parse_math=False)
    axes.set_xlabel("answer", fontsize=9)
    axes.set_ylabel("class", fontsize=9)
    axes.set_title(title, fontsize=9, loc="left", parse_math=False)
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03, format=lambda share, _: f"{100 * share:.0f} %")
    bar.ax.tick_params(labelsize=7)
    if classes <= MOST_NUMBERS:
        for row, column in counts.nonzero().tolist():
            count = int(counts[row, column])
            color = "white" if shares[row, column] > 0.55 else "black"
            size = 7 if count < 1000 else 5
            axes.text(column, row, str(count), ha="center", va="center", color=color, fontsize=size)
    return write_atomically(path, lambda to: figure.savefig(to, format="png", dpi=130))
