"""The provenance of a result: versions, machine and memory."""

from __future__ import annotations

import platform
import sys

import torch


def versions() -> dict[str, str]:
    """Return the versions of bitspike, torch and Python, the machine, and the GPU if there is one."""
    from bitspike import __version__

    found = {
        "bitspike": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads",
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def peak_memory_mb(device: torch.device) -> int:
    """Return the most memory that was in use: the GPU's, or on a CPU this process's; 0 where it is not known."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20)
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))
