"""The page's JavaScript in Node, without a page: one process for many jobs."""

import base64
import json
import shutil
import subprocess
from importlib import resources

import numpy as np

PROGRAM = shutil.which("node")
WHY_NOT = "needs node (apt-get install nodejs)"


def source(*names: str) -> str:
    """Return files of the page as one text."""
    folder = resources.files("bitspike.deploy.page")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def call(code: str, function: str, job: object) -> object:
    """Return what a JavaScript function, given as text, returns for `job`, with `code` before it."""
    program = f"{code}\nconst job = JSON.parse(require('fs').readFileSync(0));\n"
    program += f"process.stdout.write(JSON.stringify(({function})(job)));"
    done = subprocess.run([PROGRAM, "-e", program], input=json.dumps(job), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def floats(values: np.ndarray) -> str:
    """Return float32 numbers as the page reads them."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def from_floats(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def from_bytes(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.uint8)
