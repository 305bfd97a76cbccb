"""The only home of equations: pure functions, each with its plain definition and its proved-equal fast twins."""

from bitspike.ops.lif import Adaptation, Backend, LIFOutput, LIFState, lif
from bitspike.ops.lif.surrogate import Surrogate, arctan_grad, fast_sigmoid_grad, sigmoid_grad, spike, triangular_grad
from bitspike.ops.product.binarize import binarize, soften
from bitspike.ops.product.grouped import grouped_linear

__all__ = [
    "Adaptation",
    "Backend",
    "LIFOutput",
    "LIFState",
    "Surrogate",
    "arctan_grad",
    "binarize",
    "fast_sigmoid_grad",
    "grouped_linear",
    "lif",
    "sigmoid_grad",
    "soften",
    "spike",
    "triangular_grad",
]
