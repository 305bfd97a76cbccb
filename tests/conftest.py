"""What every test file shares: laws that never flake, a fixed seed, and the backends of the scan."""

import os
import sys

# Tests run side by side, one process a core (`make test`), on tensors too small for a second thread. PyTorch looks at
# this when it is first imported, in this process and in those that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

settings.register_profile("bitspike", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("bitspike")

# Tests of backend="auto" look at what it picks by itself.
os.environ.pop("BITSPIKE_BACKEND", None)

# Without a GPU, Triton's kernels run in its interpreter; it looks at this when it is first imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# A machine without a compiler says so; anywhere else a missing kernel is a failure, not a skip.
FAST = ("torch",) if os.environ.get("BITSPIKE_NO_C") == "1" else ("torch", "c")


# Session scope: hypothesis does not allow fixtures that are made anew for every test function.
@pytest.fixture(scope="session", params=FAST)
def fast(request):
    """A backend that must equal "reference"."""
    return request.param


@pytest.fixture(scope="session", params=("reference", *FAST))
def backend(request):
    """Every backend."""
    return request.param


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder, with a data root of its own, in which a user works."""
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "root"))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("BITSPIKE_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("bitspike.data.roots.LOCAL", ())  # copies that this machine may have
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def cli(monkeypatch, capsys):
    """`bitspike ARGUMENTS`: the exit status, stdout and stderr."""
    from bitspike.cli import main

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["bitspike", *map(str, arguments)])
        try:
            main()
            status = 0
        except SystemExit as stop:
            status = stop.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return call


# What the oracle compared: each process of pytest-xdist tells its own tally to the one that writes the summary.


def _tally():
    return getattr(sys.modules.get("helpers.peers"), "TALLY", None)


def pytest_sessionfinish(session):
    if (sent := getattr(session.config, "workeroutput", None)) is not None:
        sent["tally"] = _tally()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    from helpers.peers import TALLY

    if told := getattr(node, "workeroutput", {}).get("tally"):
        TALLY["spikes"] += told["spikes"]
        TALLY["flips"] += told["flips"]
        TALLY["gradient"] = max(TALLY["gradient"], told["gradient"])


def pytest_terminal_summary(terminalreporter):
    tally = _tally()
    if tally and tally["spikes"]:
        terminalreporter.write_line(
            f"oracle (snnTorch, all versions and backends): {tally['spikes']:,} spikes compared, "
            f"{tally['flips']} flips, "
            f"gradients within {tally['gradient']:.1e} of the largest"
        )
