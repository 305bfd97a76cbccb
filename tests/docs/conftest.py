"""Tests of the documentation import the site's hooks, as far as these need no mkdocs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "hooks"))
