"""Lines that `bitspike train` prints before the first epoch, where the user's own data looks like a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bitspike.data.samples import Dataset
    from bitspike.experiments.schema import Experiment

MOST_LINES = 4


def finding_lines(spec: Experiment, data: Dataset) -> list[str]:
    """Return notes about groups and time, a line for each finding that is no warning of the run, and where more are."""
    from bitspike.data.group_notes import group_notes
    from bitspike.data.mistakes import findings
    from bitspike.data.profiles import profile
    from bitspike.data.time_notes import time_notes
    from bitspike.experiments.data_warnings import FINDINGS
    from bitspike.experiments.held_out import splits

    parts = {str(name): samples for name, samples in splits(spec, data).items()}
    shown = profile(data, parts, class_weights=spec.train.class_weights != "none")
    found = [str(finding) for finding in findings(shown) if finding.cause not in FINDINGS]
    notes = group_notes(shown, from_file=data.valid is not None, chooses=spec.train.choose == "best")
    notes += time_notes(shown) if spec.sources.get("data.bin_ms", "").startswith("found: ") else []
    lines = [f"note: {each}" for each in notes]
    lines += [f"warning: {each}" for each in found[:MOST_LINES]]
    more = len(found) - MOST_LINES
    return lines + ([f"warning: and {more} more; `bitspike data info` shows all"] if more > 0 else [])
