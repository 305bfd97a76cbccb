"""The current of a layer at test time, in one order of operations: product with -1/+1, pools, bias, folded batch norm.

- `form.py`: what a layer is beside its tensors: pools, stride and padding.
- `reference.py`: the definition, one addition after the other in float64.
- `torch.py`: the same bits from PyTorch's products, where sums are exact in any order; ordered sums elsewhere.
- `c.py`, `current.c`: what surrounds the products, for `torch.py`.
"""

from bitspike.ops.current.form import Form, Pool
from bitspike.ops.current.reference import fold_norm
from bitspike.ops.current.torch import current

__all__ = ["Form", "Pool", "current", "fold_norm"]
