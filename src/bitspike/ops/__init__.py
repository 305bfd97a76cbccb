"""All equations as pure functions: one folder for each op, with its plain definition and its fast twins.

In every folder `reference.py` is the definition. `torch.py` (PyTorch operations), `c.py` with `.c` files (the CPU) and
`triton.py` with `kernels*.py` (a GPU) compute the same, and tests compare them with it.

- `lif/`: the neurons' scan. `norm/`: batch norm. `dropout/`: dropout from a key. `product/`: weights times spikes.
- `delay/`: delays of spikes, by whole steps or soft. `gain/`: how much each sender counts. `filter/`: what spikes pass
  before a synapse, which is dropout, delay and gain in one pass.
- `readout/`: the membrane of neurons that never fire, and its scores.
- `current/`: the current of a layer at test time, in one order of operations.
- `chain/`: several of these in one kernel. `loss/`: the count loss. `batches/`: batches of training samples.
- `native/`: the one C extension. `launch.py`: what all Triton kernels share. `buffers.py`: recycled CPU memory.
- `available.py`: whether kernels can run here. `checks.py`: checks of arguments.
- `first_order.py`, `saved.py`: what autograd functions with a hand-written backward pass share.
"""

from bitspike.ops.delay import delay
from bitspike.ops.gain import gain
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
    "delay",
    "fast_sigmoid_grad",
    "gain",
    "grouped_linear",
    "lif",
    "sigmoid_grad",
    "soften",
    "spike",
    "triangular_grad",
]
