"""Public names: which there are, and where each is defined.

A page writes `::: bitspike.lif`, the name that a user imports. The documentation tools read source files and need the
place of the definition, `bitspike.ops.lif.op.lif`. The hook below puts it in; headings keep the short name.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

MODULES = ("bitspike", "bitspike.data", "bitspike.nn", "bitspike.ops", "bitspike.train")
# Names of modules that have no __all__.
MORE = (
    "bitspike.suggest.Drive",
    "bitspike.suggest.measure_drive",
    "bitspike.analysis.activity.LayerActivity",
    "bitspike.analysis.activity.layer_activity",
    "bitspike.analysis.activity.measure_activity",
    "bitspike.analysis.classification.classify",
    "bitspike.analysis.classification.Classification",
    "bitspike.analysis.metrics.confusion_matrix",
    "bitspike.analysis.metrics.class_figures",
    "bitspike.analysis.metrics.ClassFigures",
    "bitspike.analysis.metrics.macro_f1",
    "bitspike.analysis.metrics.balanced_accuracy",
    "bitspike.analysis.metrics.calibration",
    "bitspike.analysis.metrics.Calibration",
    "bitspike.analysis.confusion_text.class_lines",
    "bitspike.analysis.confusion_text.confusion_lines",
    "bitspike.analysis.baselines.baselines",
    "bitspike.analysis.baselines.Baselines",
    "bitspike.analysis.baselines.majority",
    "bitspike.analysis.baselines.logistic",
    "bitspike.analysis.baselines.Logistic",
    "bitspike.analysis.count_features.count_features",
    "bitspike.analysis.timing.TimingStatistics",
    "bitspike.analysis.timing.timing_statistics",
)
DIRECTIVE = re.compile(r"^::: (bitspike[\w.]*)\n(    options:\n)?", re.MULTILINE)


def resolve(name: str) -> Any:
    """Return the object that is imported by a dotted name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def public_names() -> dict[str, Any]:
    """Return every public class and function once, by its shortest name; types such as `Backend` are left out."""
    names = [f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__]
    found: dict[str, Any] = {}
    for name in (*names, *MORE):
        value = resolve(name)
        ours = getattr(value, "__module__", "").startswith("bitspike")
        if ours and not any(value is other for other in found.values()):
            found[name] = value
    return found


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Write the place of each definition in place of its public name."""

    def placed(directive: re.Match[str]) -> str:
        name = directive[1]
        value = resolve(name)
        lines = [
            f"::: {value.__module__}.{value.__qualname__}",
            "    options:",
            f"      heading: {name}",
            f"      toc_label: {value.__qualname__}",
        ]
        return "\n".join(lines) + "\n"

    return DIRECTIVE.sub(placed, markdown)
