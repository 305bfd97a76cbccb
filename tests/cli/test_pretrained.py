"""`bitspike pretrained`: the networks that come with the package."""

import json
import subprocess
import sys

from bitspike.deploy.pretrained import pretrained_names


def test_the_list(cli):
    status, out, err = cli("pretrained")
    assert (status, err) == (0, "")
    for name in pretrained_names():
        assert f"{name}  " in out
    assert "90.99% of 10,000 test samples of FashionMNIST (last epoch; protocol holdout, seed 3)" in out
    assert "test samples of SHD regenerated" in out
    assert "made by   bitspike train shd/best --trials 5 --together" in out
    assert out.splitlines()[-1].startswith("use one with: bitspike predict NAME FILE...")


def test_machine_output(cli):
    told = json.loads(cli("pretrained", "--json")[1])
    assert [each["name"] for each in told] == pretrained_names()
    assert all({"accuracy", "bytes", "spikes", "command", "protocol", "data"} <= each.keys() for each in told)


def test_listing_loads_neither_torch_nor_numpy():
    code = """
import sys
from bitspike.cli import main
sys.argv = ["bitspike", "pretrained"]
try:
    main()
except SystemExit:
    pass
print([name for name in ("torch", "numpy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
