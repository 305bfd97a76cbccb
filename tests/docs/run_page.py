"""Run the blocks of one tutorial in order and print what each of them printed, as JSON.

`python run_page.py BLOCKS.json` runs in the folder that the reader would work in. A block has the keys "kind", "text",
"file" and "where". "python" blocks share one namespace, as in one session; "bash" blocks run by bash; the text of any
other kind is written to `file`.
"""

import contextlib
import io
import json
import linecache
import subprocess
import sys
from pathlib import Path


def run_python(text: str, where: str, namespace: dict) -> str:
    """Return what the block prints; a traceback shows the block's own lines."""
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, where, "exec"), namespace)
    return printed.getvalue()


def run_bash(text: str, where: str) -> str:
    """Return what the commands print to stdout; the first one that fails ends the page."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{where}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    namespace = {"__name__": "__main__"}
    outputs = []
    for block in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        kind, text, where = block["kind"], block["text"], block["where"]
        if kind == "python":
            outputs.append(run_python(text, where, namespace))
        elif kind == "bash":
            outputs.append(run_bash(text, where))
        else:
            Path(block["file"]).write_text(text, encoding="utf-8")
            outputs.append("")
    sys.stdout.write(json.dumps(outputs))


if __name__ == "__main__":
    main()
