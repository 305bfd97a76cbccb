"""The structures and functions of runtime.h and batch.c, as ctypes takes them."""

from __future__ import annotations

import ctypes

from bitspike.c_library import COUNT, POINTER, declare


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class CPool(ctypes.Structure):
    """`bs_pool` of runtime.h, field by field."""

    _fields_ = _fields(ctypes.c_uint32, "kind size stride")


def _layer_fields(factor: type) -> tuple[tuple[str, type], ...]:
    """Return `bs_layer` of runtime.h, field by field; `factor` is bs_factor."""
    return (
        *_fields(ctypes.c_uint32, "kind in_channels in_rows in_columns channels rows columns kernel stride padding"),
        *_fields(ctypes.c_uint32, "pools"),
        ("pool", CPool * 4),
        *_fields(ctypes.c_void_p, "weight wide bias scale offset delays"),
        *_fields(ctypes.c_uint32, "longest"),
        *_fields(ctypes.c_void_p, "gains"),
        *_fields(ctypes.c_uint32, "gain_words largest_gain"),
        *_fields(ctypes.c_void_p, "recurrent"),
        *_fields(factor, "recurrent_scale"),
        *_fields(ctypes.c_void_p, "beta theta"),
        *_fields(ctypes.c_uint32, "betas thetas adaptive"),
        *_fields(factor, "rho rest strength"),
    )


class CLayer(ctypes.Structure):
    """A layer with float32 numbers."""

    _fields_ = _layer_fields(ctypes.c_float)


class CFixedLayer(ctypes.Structure):
    """A layer with fixed-point numbers."""

    _fields_ = _layer_fields(ctypes.c_int32)


class CModel(ctypes.Structure):
    """`bs_model` of runtime.h, field by field."""

    _fields_ = (
        *_fields(ctypes.c_uint32, "layers"),
        *_fields(ctypes.c_void_p, "layer"),
        *_fields(ctypes.c_uint32, "in_channels in_rows in_columns input planes image"),
    )


class CBatch(ctypes.Structure):
    """`Batch` of batch.c, field by field."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "model state map input"),
        *_fields(ctypes.c_int64, "form steps batch inputs first last glances"),
        *_fields(ctypes.c_void_p, "places spikes membrane watched scores counts"),
    )


for _prefix in ("bs_", "bs_fixed_"):
    declare(_prefix + "check", POINTER)
    declare(_prefix + "state_bytes", POINTER, result=ctypes.c_size_t)
    declare(_prefix + "reset", POINTER, POINTER, result=None)
    declare(_prefix + "event", POINTER, POINTER, ctypes.c_uint32, ctypes.c_uint32)
    declare(_prefix + "step", POINTER, POINTER, POINTER)
    declare(_prefix + "steps", POINTER, POINTER, result=ctypes.c_uint32)
    declare(_prefix + "spikes", POINTER, POINTER, ctypes.c_uint32, result=POINTER)
    declare(_prefix + "membrane", POINTER, POINTER, ctypes.c_uint32, result=POINTER)
    declare(_prefix + "counts", POINTER, POINTER, result=POINTER)
    declare(_prefix + "scores", POINTER, POINTER, POINTER, result=None)
    declare(_prefix + "wide_bytes", POINTER, result=ctypes.c_size_t)
    declare(_prefix + "widen", POINTER, POINTER, result=None)
    declare(_prefix + "map_bytes", POINTER, result=ctypes.c_size_t)
declare("bitspike_run_batch", POINTER, result=COUNT)
declare("bitspike_run_batch_fixed", POINTER, result=COUNT)
