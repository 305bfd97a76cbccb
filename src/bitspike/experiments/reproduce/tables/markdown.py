"""A table as Markdown: rows with the paper's figures beside ours, made from the content of summary.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bitspike.data.catalog import usual_edition

FAR = 2.0  # sigmas: further off asks for an explanation
HEADING = (
    f"Test accuracy in percent. Sigma is a sample sigma over trials; *away* is (our mean - the paper's) / the paper's "
    f"sigma, bold beyond {FAR:g}. Protocol `paper` reports the best test epoch of each trial, `holdout` the test "
    "accuracy of the epoch that validation samples chose, where nothing else is said below. Dead: share of each "
    "layer's neurons that never fire on the test set."
)
ABLATION_HEADING = (
    "Ablations of the annealed cells: the best accuracy that each seed reaches, and the annealed cell's with the same "
    "seed after as many epochs (on test samples under `paper`, on validation samples under `holdout`)."
)


DEAD_HEADING = (
    "Dead neurons: the share of each layer's neurons that fire for no sample, in percent, mean over trials. Start: "
    "before the first iteration, on the test set. First epoch: after it, on test samples under `paper`, on validation "
    "samples under `holdout`. Chosen epoch: on the test set. The paper's are read as those of trained networks."
)
NOT_AVAILABLE = (
    "not available here (`bitspike data fetch {task} --from DIR` brings it, `--task {task}` trains its rows)"
)


def far(cell: Mapping[str, Any]) -> bool:
    """Return whether our mean is more than FAR of the paper's sigmas from the paper's."""
    away = cell["away"]
    return away is not None and away["sigmas"] is not None and abs(away["sigmas"]) > FAR


def number(value: float | None, form: str = ".2f") -> str:
    """Return a figure as text, or a dash where there is none."""
    return "-" if value is None else format(value, form)


def span(values: Sequence[float]) -> str:
    """Return the range of values as text: `50`, or `48-50` where they differ."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def rows_of(tree: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield protocol, task, name and values of each cell, in order."""
    for protocol, tasks in tree.items():
        for task, cells in tasks.items():
            for name, cell in cells.items():
                yield protocol, task, name, cell


def markdown(summary: Mapping[str, Any]) -> str:
    """Return the cells beside the paper's figures, then what each ablation changes, then remarks."""
    lines = [
        HEADING,
        *_other_data(summary["cells"]),
        "",
        "| protocol | cell | paper best | mean | sigma | ours best | mean | sigma | away | trials | epochs | dead, % |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for protocol, task, name, cell in rows_of(summary["cells"]):
        paper = cell["paper"] or {}
        away = number(cell["away"]["sigmas"] if cell["away"] else None, "+.1f")
        figures = [number(paper.get(key)) for key in ("best", "mean", "sigma")]
        figures += [number(cell[key]) for key in ("best", "mean", "sigma")]
        figures += [f"**{away}**" if far(cell) else away, str(cell["trials"]), span(cell["epochs"]), dead_shares(cell)]
        lines.append(f"| {protocol} | {task}/{name} | {' | '.join(figures)} |")
    lines += [f"| - | {task} | not available here |{' - |' * 9}" for task in summary.get("not_available", ())]
    lines += _ablations(summary["ablations"])
    lines += _dead_neurons(summary["cells"])
    lines += ["", *(f"- {remark}" for remark in remarks(summary))]
    return "\n".join(lines).rstrip() + "\n"


def _other_data(tree: Mapping[str, Any]) -> list[str]:
    """Return a paragraph for each task whose data is not the usual files, those that were published."""
    found = {}
    for _, task, _, cell in rows_of(tree):
        edition = cell.get("edition", "published")
        if edition not in ("published", usual_edition(task)):
            which = cell["data"] if edition in cell["data"] else f"{cell['data']} ({edition})"
            found[task] = f"All figures of `{task}` are on {which}, not on the published files."
    return [line for text in found.values() for line in ("", text)]


def dead_shares(cell: Mapping[str, Any]) -> str:
    """Return the share of dead neurons of every layer, in percent."""
    return "-" if cell["dead"] is None else " ".join(f"{100 * share:.0f}" for share in cell["dead"].values())


def _ablations(tree: Mapping[str, Any]) -> list[str]:
    """Return the lines of the second table: what each ablation changes."""
    if not tree:
        return []
    lines = [
        "",
        ABLATION_HEADING,
        "",
        "| protocol | ablation | annealed | changed | difference | by seed | epochs | what changes |",
        "|---|---|--:|--:|--:|---|--:|---|",
    ]
    for protocol, task, name, found in rows_of(tree):
        by_seed = ", ".join(f"{value:+.2f}" for value in found["differences"])
        means = [sum(found[key]) / len(found[key]) for key in ("base", "here")]
        figures = [*(f"{mean:.2f}" for mean in means), f"{found['mean_difference']:+.2f}", by_seed]
        also = f"; **and also** {'; '.join(found['also'])}" if found["also"] else ""
        figures += [span(found["epochs"]), f"{found['sentence']}: `{' '.join(found['settings'])}`{also}"]
        lines.append(f"| {protocol} | {task}/{name} | {' | '.join(figures)} |")
    return lines


def _dead_neurons(tree: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table of dead neurons over time; none where no cell has them."""
    cells = [(f"{protocol} | {task}/{name}", cell) for protocol, task, name, cell in rows_of(tree)]
    rows = [f"| {where} | {' | '.join(dead_over_time(cell))} |" for where, cell in cells if "dead_neurons" in cell]
    if not rows:
        return []
    head = ["| protocol | cell | paper | start | first epoch | chosen epoch |", "|---|---|---|---|---|---|"]
    return ["", DEAD_HEADING, "", *head, *rows]


def dead_over_time(cell: Mapping[str, Any]) -> list[str]:
    """Return each layer's share of dead neurons: the paper's, at the start, after an epoch, at the chosen epoch."""
    found = cell["dead_neurons"]
    shares = (found[key] for key in ("paper", "start", "first_epoch", "chosen"))
    return ["-" if each is None else " ".join(f"{share:.0f}" for share in each) for each in shares]


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """List remarks on the numbers: settings unlike the preset's, other epochs, runs that stopped early."""
    unlike: dict[str, list[str]] = {}
    held_out: dict[str, list[str]] = {}
    others = []
    for protocol, task, name, cell in rows_of(summary["cells"]):
        where = f"{protocol} {task}/{name}"
        known = summary["ablations"].get(protocol, {}).get(task, {}).get(name)
        if cell["unlike_preset"] and known is None:
            unlike.setdefault("; ".join(cell["unlike_preset"]), []).append(where)
        if held := cell.get("held_out"):
            words = "; ".join(f"{name} {', '.join(map(str, groups))}" for name, groups in held.items())
            held_out.setdefault(f"{protocol} {task}: held out are {words}", []).append(name)
        if "last epoch" in cell["accuracy_of"]:
            others.append(f"{where}: the last epoch counts, whatever its accuracy")
        if len(set(cell["epochs"])) > 1 and "epochs" in cell["endings"]:
            others.append(f"{where}: trials of {span(cell['epochs'])} epochs are averaged")
        others += [
            f"{where}: seed {seed} ended in {ending!r}"
            for seed, ending in zip(cell["seeds"], cell["endings"], strict=True)
            if ending not in ("epochs", "patience")
        ]
    missing = [f"{task} {what}" for task, what in summary.get("stand_ins", {}).items()]
    missing += [f"{task}: {NOT_AVAILABLE.format(task=task)}" for task in summary.get("not_available", ())]
    missing += [f"{words} ({', '.join(names)})" for words, names in held_out.items()]
    return missing + [f"Not the preset: {how} ({', '.join(cells)})" for how, cells in unlike.items()] + others
