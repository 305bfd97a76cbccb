"""Seven sets of events and one of images that judge the base recipes: no number of a recipe was chosen on them.

    python benchmarks/judge_sets.py --out DIR [--only NAMES] [--seed N]

Each set becomes a training file, a test file and an experiment file of a few lines, as in benchmarks/sensor_sets.py.
Subjects (patients, singers, sites, persons) differ from each other, and those of the test are not in the training.
Do not change a recipe to be better on these sets: then they do not judge it any more.
"""

from __future__ import annotations

from collections.abc import Callable

from judge_sound_and_sight import birds, heart, leaves, sonar
from judge_touch_and_motion import floor, gas, quakes, street
from sensor_events import TwoFiles
from sensor_sets import write_named_sets

JUDGES: dict[str, Callable[[int], TwoFiles]] = {
    "heart-6": heart,
    "gas-8": gas,
    "floor-24": floor,
    "birds-40": birds,
    "quakes-80": quakes,
    "sonar-160": sonar,
    "street-40": street,
    "leaves-24": leaves,
}


if __name__ == "__main__":
    write_named_sets(JUDGES, __doc__)
