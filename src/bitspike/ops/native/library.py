"""The compiled kernels of this folder, and whether a layer may use them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from functools import cache

import torch
from torch import Tensor

from bitspike.ops.available import transformed
from bitspike.ops.checks import is_ordinary
from bitspike.ops.lif.c import CGradients
from bitspike.ops.lif.surrogate import CODES

_INTERFACE = 2  # of pack.c
_POINTER, _COUNT, _NUMBER = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_SIGNATURES = {
    "pack_rows": (_POINTER, _COUNT, _COUNT, _NUMBER, _POINTER, ctypes.POINTER(_COUNT)),
    "dropout_mask": (_POINTER, _COUNT, _COUNT, _NUMBER, _POINTER),
    "dense_weight": (_POINTER, _COUNT, _COUNT, _COUNT, _NUMBER, _POINTER),
    "dense_gradient": (_POINTER, _COUNT, _COUNT, _COUNT, _COUNT, _NUMBER, _POINTER),
    "dense_forward": (_POINTER, _NUMBER, _POINTER, _POINTER, _POINTER),
    "dense_backward": (_POINTER, _NUMBER, ctypes.POINTER(CGradients), _COUNT, _POINTER, _POINTER),
    "conv_forward": (_POINTER, _NUMBER, _POINTER, _POINTER),
    "conv_weight_gradient": (_POINTER, _NUMBER, _POINTER, _COUNT, _POINTER),
    "conv_input_gradient": (_POINTER, _NUMBER, _POINTER, _POINTER, _POINTER),
    "norm_forward": (_POINTER, _NUMBER, *[_POINTER] * 6),
    "norm_backward": (_POINTER, _NUMBER, *[_POINTER] * 6),
}


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernels; None if they were not built, do not load, or were built from other sources."""
    spec = importlib.util.find_spec("bitspike.ops.native._native")
    if spec is None or spec.origin is None:
        return None
    try:
        loaded = ctypes.CDLL(spec.origin)
        if loaded.cpu_interface() != _INTERFACE or loaded.cpu_surrogates() != len(CODES):
            return None
        for name, arguments in _SIGNATURES.items():
            getattr(loaded, name).argtypes = arguments
            getattr(loaded, name).restype = ctypes.c_int
    except (OSError, AttributeError):
        return None
    return loaded


def kernels() -> ctypes.CDLL:
    """The compiled kernels, for whoever has asked `usable` before."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("bitspike.ops.native: the compiled kernels are missing; ask usable() first")
    return loaded


def usable(x: Tensor, backend: str = "auto") -> bool:
    """Whether a layer whose neurons ask for `backend` may run in C on `x`: only "auto", float32, on the CPU."""
    if os.environ.get("BITSPIKE_BACKEND", "auto") not in ("", "auto") or backend != "auto":
        return False
    if not is_ordinary(x, x.shape, x.device) or x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return False
    return x.numel() > 0 and library() is not None and not transformed()


def succeed(name: str, failed: int) -> None:
    """Raise if threads of a kernel found no memory."""
    if failed:
        raise MemoryError(f"{name}: no memory for the scratch of {failed} threads")
