"""Triton's interpreter, mended and fenced: bf16 is rounded to nearest, and no access leaves a launch's tensors."""

import functools

import numpy
import torch


@functools.cache
def mend():
    """Let Triton's interpreter round as GPUs do, and fail where a GPU would read or write out of bounds.

    The interpreter cuts float32 off to bf16, reads whatever lies beside a tensor, and gives zeros for what is masked,
    where a GPU gives anything: here NaN. Nothing to do where kernels run on a GPU.
    """
    if torch.cuda.is_available():
        return
    from triton.runtime import interpreter

    _round(interpreter)
    _fence(interpreter)


def _round(interpreter):
    from triton import language as tl

    cuts = interpreter._convert_float

    def convert(values, source, target, rounding):
        if (source, target) == (tl.float32, tl.bfloat16):
            as_torch = torch.from_numpy(numpy.array(values, numpy.float32))
            return as_torch.bfloat16().view(torch.int16).numpy().view(numpy.uint16)
        return cuts(values, source, target, rounding)

    interpreter._convert_float = convert


def _fence(interpreter):
    spans = numpy.zeros((0, 2), numpy.uint64)  # first byte and the one after the last, of every tensor of a launch
    executor, builder = interpreter.GridExecutor, interpreter.InterpreterBuilder
    prepare, load, store = executor._init_args_hst, builder.create_masked_load, builder.create_masked_store

    def preparing(self, args, kwargs):
        nonlocal spans
        prepared = prepare(self, args, kwargs)
        storages = [arg.untyped_storage() for arg in prepared[0] if isinstance(arg, torch.Tensor)]
        if storages:  # or a kernel calls a function, which comes here too
            found = sorted((storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in storages)
            spans = numpy.array(found, numpy.uint64)
        return prepared

    def check(pointers, mask):
        places = pointers.data[mask.data.astype(bool)]
        if places.size:
            span = numpy.searchsorted(spans[:, 0], places, side="right").astype(numpy.int64) - 1
            outside = (span < 0) | (places >= spans[span, 1])
            if outside.any():
                raise IndexError(f"{outside.sum()} of {places.size} places lie outside of every tensor of the launch")

    def loading(self, pointers, mask, other, *rest):
        check(pointers, mask)
        loaded = load(self, pointers, mask, other, *rest)
        if other is None:  # masked places may then hold anything
            nan = {"fp32": numpy.nan, "fp16": numpy.nan, "bf16": 0x7FC0}.get(str(loaded.get_element_ty()))
            if nan is not None:
                loaded.data[~mask.data.astype(bool)] = nan
        return loaded

    def storing(self, pointers, value, mask, *rest):
        check(pointers, mask)
        return store(self, pointers, value, mask, *rest)

    executor._init_args_hst, builder.create_masked_load, builder.create_masked_store = preparing, loading, storing
