"""The leaky integrate-and-fire scan, Eq. 1-2 of the paper: the op `lif`, its definition and its fast twins.

- `op.py`: `lif` itself, which picks a backend. `scan.py`: its checked arguments. `state.py`: what it takes and gives.
- `reference.py`: the definition, T steps under autograd. `surrogate.py`: the spike and its surrogate gradients.
- `torch.py`: one autograd function in PyTorch operations, on any device.
- `c.py`, `scan.c`, `scan.h`: on the CPU.
- `triton.py`, `kernels.py`: on a GPU; `triton_recurrent.py`, `kernels_recurrent.py`: the same with recurrent weights;
  `kernels_surrogate.py`: the surrogates.
"""

from bitspike.ops.lif.op import Backend, lif
from bitspike.ops.lif.scan import Scan
from bitspike.ops.lif.state import Adaptation, LIFOutput, LIFState

__all__ = ["Adaptation", "Backend", "LIFOutput", "LIFState", "Scan", "lif"]
