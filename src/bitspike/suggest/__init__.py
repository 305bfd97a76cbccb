"""Suggestions for thresholds, from the drive of a network's layers on a batch, measured before training.

- `drive.py`: what the drive of a layer is
- `measure.py`: `measure_drive`; `passes.py`: the same for networks that only run as a whole
- `schedules.py`: `suggest_schedules`, and the defaults
"""

from bitspike.suggest.drive import Drive
from bitspike.suggest.measure import measure_drive
from bitspike.suggest.schedules import relaxing_rate, suggest_schedules

__all__ = ["Drive", "measure_drive", "relaxing_rate", "suggest_schedules"]
