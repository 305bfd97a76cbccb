"""The answers of a network by class, in numbers, in text and as a picture."""

import pytest
import torch

from bitspike.analysis.classification import classify
from bitspike.analysis.confusion_figure import draw_confusion
from bitspike.analysis.confusion_text import MOST_CLASSES, WIDTH, class_lines, confusion_lines
from bitspike.analysis.metrics import calibration


def drawn(classes, samples, *, names=None, wrong=0.3, silent=0.0, seed=0):
    """A classification whose answers are wrong, or missing, at these shares."""
    made = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % classes
    answers = torch.where(torch.rand(samples, generator=made) < wrong, labels.roll(1), labels)
    scores = torch.eye(classes)[answers]
    scores[torch.rand(samples, generator=made) < silent] = 0
    return classify(scores, labels, names or [str(label) for label in range(classes)], silence=True)


def test_silence_is_an_answer_only_where_spikes_are_read():
    scores, labels = torch.tensor([[0.0, 0.0], [0.0, 1.0], [-1.0, -2.0]]), torch.tensor([0, 1, 0])
    spikes = classify(scores[:2], labels[:2], ["a", "b"], silence=True)
    assert spikes.confusion.tolist() == [[0, 0, 1], [0, 1, 0]]
    membranes = classify(scores, labels, ["a", "b"])
    assert membranes.confusion.tolist() == [[2, 0, 0], [0, 1, 0]]


def test_the_scale_of_the_loss_makes_logits():
    scores, labels = torch.tensor([[0.2, 0.4], [0.1, 0.0], [0.3, 0.9]]), torch.tensor([0, 0, 1])
    found = classify(scores, labels, ["a", "b"], scale=10.0)
    assert found.calibration == calibration(10 * scores.double(), labels)
    assert found.calibration != calibration(scores, labels)
    assert classify(scores, labels, ["a", "b"]).calibration is None
    silent = classify(torch.zeros(1, 4), torch.tensor([0]), list("abcd"), silence=True, scale=10.0)
    assert silent.calibration.error == 0.25, "its confidence is 1/4, and it is not right"


def test_classes_are_called_by_their_labels_in_the_file():
    scores, labels = torch.eye(3)[[0, 1, 2]], torch.tensor([0, 1, 1])
    found = classify(scores, labels, ["1", "2"], file_labels=["1", "2"])
    assert found.names == ("1", "2", "output 2")
    assert [each["file_label"] for each in found.as_json()["classes"]] == ["1", "2", None]
    assert [line.split()[0] for line in class_lines(found)] == ["class", "1", "2", "#2"]
    assert confusion_lines(found)[1].split() == ["1", "2", "#2"]
    text = classify(scores, labels, ["a", "b", "c"], file_labels=["x", "y", "z"])
    assert confusion_lines(text)[1].split() == ["0", "1", "2"]
    assert "file_label" not in classify(scores, labels, ["a", "b", "c"]).as_json()["classes"][0]


def test_outputs_without_a_class_are_numbered():
    found = classify(torch.eye(4)[[0, 3]], torch.tensor([0, 1]), ["a", "b"])
    assert found.names == ("a", "b", "2", "3")
    assert found.as_json()["confusion"] == [[1, 0, 0, 0], [0, 0, 0, 1], [0] * 4, [0] * 4]
    assert found.as_json()["classes"][3] == {
        "label": 3, "name": "3", "precision": 0.0, "recall": None, "f1": 0.0, "support": 0,
    }  # fmt: skip


@pytest.mark.parametrize("silent", [0.0, 0.2])
@pytest.mark.parametrize("samples", [40, 900, 90_000])
@pytest.mark.parametrize("classes", [2, 10, MOST_CLASSES])
@pytest.mark.parametrize("long", [False, True])
def test_text_fits_80_columns(classes, samples, silent, long):
    names = [f"a class with a long name, {label}" for label in range(classes)] if long else None
    found = drawn(classes, samples, silent=silent, names=names)
    lines = [*class_lines(found), *confusion_lines(found)]
    assert max(map(len, lines)) <= WIDTH, lines
    rows = confusion_lines(found)[2 : 2 + classes]
    assert [row.split()[0] for row in rows] == [str(label) for label in range(classes)]


def test_counts_and_percents():
    few = drawn(3, 30)
    assert confusion_lines(few)[0] == "confusion matrix: samples of each class (rows) by answer (columns)"
    shown = [line.split()[1:] for line in confusion_lines(few)[2:]]
    assert [[int(cell.replace(".", "0")) for cell in row] for row in shown] == few.confusion[:, :3].tolist()
    many = drawn(MOST_CLASSES, 20_000, wrong=0.25)
    title, _, first, *_ = confusion_lines(many)
    assert title.startswith("confusion matrix: % of each class (rows)")
    right, taken = (round(100 * int(many.confusion[0, column]) / 1000) for column in (0, 19))
    assert first.split() == ["0", str(right), *["."] * 18, str(taken)]
    sure = confusion_lines(drawn(MOST_CLASSES, 20_000, wrong=0.0))
    assert sure[4] == " 2   .   100" + "  ." * 17, "100 is not .100"


def test_the_dash_is_no_answer():
    lines = confusion_lines(drawn(3, 60, silent=0.3))
    assert lines[1].split() == ["0", "1", "2", "-"]
    assert lines[-1] == "- is no answer: no output neuron fired"
    assert "-" not in confusion_lines(drawn(3, 60))[1]


def test_many_classes_show_the_worst_and_say_how_to_see_all():
    found = drawn(30, 300)
    found.confusion[4] = torch.tensor([0] * 7 + [9] + [0] * 22 + [1])
    lines = confusion_lines(found)
    assert lines[0] == "the most frequent mistakes; the matrix of all 30 classes: --json, or --out FILE.png"
    assert lines[1].split() == ["9", "of", "10", "4", "taken", "for", "7"]
    assert len(class_lines(found)) == 12
    assert class_lines(found)[-1] == "these have the lowest F1; --json has all 30 classes"
    lowest = [float(line.split()[3].rstrip("%")) for line in class_lines(found)[1:-1]]
    assert lowest == sorted(lowest)
    assert lowest[0] == pytest.approx(100 * min(each.f1 for each in found.figures), abs=0.05)


@pytest.mark.parametrize("classes", [2, 35])
def test_the_picture(classes, tmp_path):
    path = draw_confusion(drawn(classes, 70, silent=0.1), tmp_path / "made" / "c.png", "a title")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 5000


def test_a_name_with_dollars_is_no_formula(tmp_path, monkeypatch):
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    written, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *to, **how: (written.append(figure), save(figure, *to, **how))
    )
    names = ["$x$", "$$^"]
    draw_confusion(drawn(2, 20, names=names), tmp_path / "c.png", "$y$")
    axes = written[0].axes[0]
    title = next(text for text in axes.findobj(Text) if text.get_text() == "$y$")
    shown = [*axes.get_xticklabels(), *axes.get_yticklabels(), title]
    assert [text.get_text() for text in shown] == [*names, *names, "$y$"]
    assert not any(text.get_parse_math() for text in shown)
