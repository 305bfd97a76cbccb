"""Triton's interpreter, mended: it cuts float32 off to bf16, where a GPU rounds to nearest."""

import numpy
import torch


def mend():
    """Let conversions from and to bf16 be those of the hardware; nothing to do where kernels run on a GPU."""
    from triton import language as tl
    from triton.runtime import interpreter

    if torch.cuda.is_available() or hasattr(interpreter._convert_float, "cuts"):
        return
    cuts = interpreter._convert_float

    def convert(values, source, target, rounding):
        if (source, target) == (tl.float32, tl.bfloat16):
            as_torch = torch.from_numpy(numpy.array(values, numpy.float32))
            return as_torch.bfloat16().view(torch.int16).numpy().view(numpy.uint16)
        return cuts(values, source, target, rounding)

    convert.cuts = cuts
    interpreter._convert_float = convert
