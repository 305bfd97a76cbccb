"""Every Python snippet of README and docs runs as it stands, alone, in a folder where its commands were run before."""

import re
import shutil
from pathlib import Path

import pytest

from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import with_values
from helpers.files import fake_mnist, random_trains, trains_as_lists, write_shd

HOME = Path(__file__).parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def snippets(page: Path):
    """The page's Python blocks, known by the line they begin at."""
    text = page.read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        line = text[: block.start()].count("\n") + 1
        yield pytest.param(block[1], id=f"{page.name}:{line}")


PAGES = [HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.parent.name != "tutorials"]  # test_tutorials.py runs those, page by page
SNIPPETS = [snippet for page in PAGES for snippet in snippets(page)]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A data root and a folder with a run of `mnist/quick`, all of it tiny; each snippet gets a copy."""
    folder = tmp_path_factory.mktemp("example")
    root = folder / "root"
    fake_mnist(root, train=200, test=100)
    (root / "shd").mkdir()
    trains = random_trains(samples=40)
    for part in ("train", "test"):
        write_shd(root / "shd" / f"shd_{part}.h5", trains_as_lists(trains), trains["labels"])
    spec = with_values(preset("mnist/quick"), ["train.epochs=1", "train.recalibrate=20"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BITSPIKE_DATA", str(root))
        train_run(spec, folder / "work" / "runs" / "mnist-quick", RunOptions())
    return folder


@pytest.fixture
def prepared(workplace, example):
    """What the pages tell to do first: data fetched, `mnist/quick` trained."""
    for name in ("root", "work"):
        shutil.copytree(example / name, workplace.parent / name, dirs_exist_ok=True)


def test_there_are_snippets():
    assert len(SNIPPETS) >= 5


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_runs_as_it_stands(snippet):
    exec(compile(snippet, "snippet", "exec"), {"__name__": "__main__"})
