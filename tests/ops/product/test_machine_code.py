"""No instruction of the compiled products overwrites what a product in flight still reads.

Triton 3.6 leaves such products in flight into the next turn of a loop, and only a look at the code shows it reliably:
on a GPU the sums are wrong now and then. It needs no GPU.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")
from helpers import machine_code
from helpers.machine_code import overwritten


@pytest.mark.skipif(not machine_code.tool().is_file(), reason="this Triton comes without cuobjdump")
def test_products_in_flight_keep_their_spikes(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-m", machine_code.__name__], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert all(products > 0 for products, _ in found.values())  # else nothing was looked at
    assert {name: count for name, (_, count) in found.items() if count} == {}


TURN = """
/*0010*/ HGMMA.64x16x16.F32.BF16 R24, R4, gdesc[UR4], R24, gsb0 ;
/*0020*/ WARPGROUP.DEPBAR.LE gsb0, 0x{left} ;
/*0030*/ IADD3 R5, R8, 0x1, RZ ;
/*0040*/ @P0 BRA 0x10 ;
"""


@pytest.mark.parametrize(("left", "count"), [(0, 0), (1, 1)])
def test_a_write_to_a_product_in_flight_is_seen(left, count):
    assert len(overwritten(TURN.format(left=left))) == count
