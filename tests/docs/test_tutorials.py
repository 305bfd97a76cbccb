"""Every tutorial runs as it stands: its blocks in order, in a fresh process and an empty folder.

What a page may hold, besides text:

- ```python blocks share one namespace; ```bash blocks run by bash, all in one folder.
- A block with a title that is a file name, such as ```toml title="gestures.toml", is written to that file.
- ```text title="Output" behind a block is what it must print; "..." stands for anything.
  ```text title="Output, for example" differs from machine to machine and is only shown.
- `<!-- not run: REASON -->` before a block keeps it from being run.
- `<!-- needs: MODULE -->` skips the page where the module is not installed.
"""

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.files import fake_mnist, write_idx

HOME = Path(__file__).parents[2]
PAGES = sorted((HOME / "docs" / "tutorials").glob("[0-9]*.md"))
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: (.+) -->\n\Z")
NEEDS = re.compile(r"^<!-- needs: (\w+) -->$", re.MULTILINE)
SHOWN = ("Output", "Output, for example")


def blocks_of(page: Path) -> tuple[list[dict], dict[int, str]]:
    """Return the blocks to run, and by block number the output that the page promises."""
    text = page.read_text(encoding="utf-8")
    blocks: list[dict] = []
    promised: dict[int, str] = {}
    for fence in FENCE.finditer(text):
        kind, title, body = fence.groups()
        where = f"{page.name}:{text[: fence.start()].count(chr(10)) + 1}"
        if NOT_RUN.search(text[: fence.start()]):
            continue
        if kind == "text":
            assert title in SHOWN, f"{where}: a text block is titled {' or '.join(SHOWN)}"
            if title == "Output":
                promised[len(blocks) - 1] = body
        elif title or kind in ("python", "bash"):
            blocks.append({"kind": "file" if title else kind, "file": title, "text": body, "where": where})
        else:
            raise AssertionError(f"{where}: a {kind} block that is neither run nor written to a file")
    return blocks, promised


def write_digits(folder: Path, train: int, test: int) -> Path:
    """Write files in MNIST's format: ten patterns with noise, which a network can learn in a few iterations."""
    rng = np.random.default_rng(0)
    patterns = np.kron(rng.random((10, 7, 7)) < 0.4, np.ones((4, 4)))
    folder.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        labels = np.arange(count) % 10
        images = np.clip(200 * patterns[labels] + rng.normal(0, 20, (count, 28, 28)), 0, 255)
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", labels)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return a reader's environment: `bitspike` and `python` of this interpreter, and a data root of its own."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, start in (("bitspike", "-m bitspike"), ("python", "")):
        (bin_folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n', encoding="utf-8")
        (bin_folder / name).chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BITSPIKE_", "TRITON_"))}
    return env | {
        "PATH": f"{bin_folder}{os.pathsep}{env['PATH']}",
        "BITSPIKE_DATA": str(folder / "root"),
        "COLUMNS": "100",
        "CUDA_VISIBLE_DEVICES": "",
    }


def test_there_are_five_tutorials():
    assert [page.name[0] for page in PAGES] == list("12345")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs_as_it_stands(page, tmp_path):
    for module in NEEDS.findall(page.read_text(encoding="utf-8")):
        pytest.importorskip(module, reason=f"{page.name} needs {module}")
    blocks, promised = blocks_of(page)
    (tmp_path / "work").mkdir()
    (tmp_path / "blocks.json").write_text(json.dumps(blocks), encoding="utf-8")
    fake_mnist(tmp_path / "root", train=2200, test=300, write=write_digits)
    command = [sys.executable, str(Path(__file__).with_name("run_page.py")), str(tmp_path / "blocks.json")]
    done = subprocess.run(
        command, cwd=tmp_path / "work", env=environment(tmp_path), capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, f"{page.name} fails:\n{done.stdout}{done.stderr}"
    outputs = json.loads(done.stdout.splitlines()[-1])
    for number, wanted in promised.items():
        checker, options = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        same = checker.check_output(wanted, outputs[number], options)
        assert same, f"{blocks[number]['where']} should print\n{wanted}\nbut prints\n{outputs[number]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_of_a_tutorial_are_wrapped(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == []
