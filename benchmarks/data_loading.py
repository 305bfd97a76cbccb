"""How long each dataset takes to load, cold (read and binned) and from the cache, and to gather a batch of.

    python benchmarks/data_loading.py [--json FILE]

Takes the sets that are here (`bitspike data list`). Cold is with an empty cache folder; the operating system may have
the files in memory.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from bitspike.data import load
from bitspike.data.locate import status
from bitspike.data.roots import data_root
from bitspike.experiments.provenance import versions
from bitspike.files import write_text

BATCH = {"mnist": 128, "fashion": 128, "shd": 32, "nmnist-small": 16, "coding": 1}  # of the presets; others: 8


def seconds(call):
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def measure(name, root):
    cold, data = seconds(lambda: load(name, root=root))
    cached, data = min((seconds(lambda: load(name, root=root)) for _ in range(3)), key=lambda pair: pair[0])
    batch = BATCH.get(name, 8)
    generator = torch.Generator().manual_seed(0)
    gathered = []
    for _ in range(20):
        rows = torch.randint(len(data.train), (batch,), generator=generator)
        gathered.append(seconds(lambda rows=rows: data.train.batch(rows))[0])
    return {
        "title": data.title,
        "samples": len(data.train) + len(data.test),
        "cold_s": round(cold, 3),
        "cached_s": round(cached, 3),
        "batch": batch,
        "gather_ms": round(1000 * statistics.median(gathered), 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    out = parser.parse_args().json
    here = [each.name for each in status() if each.state != "absent"]
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in here:
            if (fetched := data_root() / name).is_dir():
                (Path(folder) / name).symlink_to(fetched.resolve())
            rows[name] = measure(name, Path(folder))
            row = rows[name]
            print(
                f"{row['title']:<20} cold {row['cold_s']:7.2f} s   cached {row['cached_s']:6.3f} s   "
                f"batch of {row['batch']:>3} {row['gather_ms']:7.2f} ms"
            )
    if out:
        text = {"command": "python benchmarks/data_loading.py", "versions": versions(), "datasets": rows}
        write_text(out, json.dumps(text, indent=2) + "\n")


if __name__ == "__main__":
    main()
