"""Triton's interpreter, mended, fenced and faster: bf16 is rounded, and no access leaves a launch's tensors."""

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
    _patch_once(interpreter)
    _keep_shapes()


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
        given = [arg for arg in (*prepared[0], *prepared[1].values()) if isinstance(arg, torch.Tensor)]
        storages = [tensor.untyped_storage() for tensor in given]
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


def _patch_once(interpreter):
    """Patch Triton's language once a launch.

    The interpreter looks for what to patch at every call of a function inside a kernel too, where all is patched.
    """
    patch, scope_type = interpreter._patch_lang, interpreter._LangPatchScope
    patched = set()

    class Scope(scope_type):
        def restore(self):
            patched.clear()
            super().restore()

    def patching(fn):
        from triton import language as tl

        found = {value.__name__ for value in fn.__globals__.values() if value is tl or value is tl.core}
        if found <= patched:
            return scope_type()
        patched.update(found)
        return patch(fn)

    interpreter._LangPatchScope, interpreter._patch_lang = Scope, patching


def _keep_shapes():
    """Make the objects that describe a shape once; the interpreter makes them anew, names and all, for every value."""
    from triton.language import core

    block, tensor = core.block_type.__init__, core.tensor.__init__
    blocks, shapes = {}, {}

    def init_block(self, element, shape):
        key = tuple(size.value if isinstance(size, core.constexpr) else size for size in shape)
        if key not in blocks:
            block(self, element, shape)
            blocks[key] = self.shape, self.numel, str(self.shape)
        self.element_ty = element
        self.shape, self.numel, text = blocks[key]
        self.name = f"<{text}, {element}>"

    def init_tensor(self, handle, type):
        key = tuple(type.shape) if type.is_block() else ()
        if key not in shapes:
            tensor(self, handle, type)
            shapes[key] = self.shape, self.numel
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = shapes[key]

    core.block_type.__init__, core.tensor.__init__ = init_block, init_tensor
