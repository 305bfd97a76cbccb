"""A leaky readout: the membrane of neurons that never fire, and the scores of classes that it gives.

- `op.py`: `leaky`, the membrane, by the kernels of `lif`, and `leaky_scores`; `ordered_scores`, which test time takes.
- `reference.py`: the definition of the membrane, T steps under autograd.
"""

from bitspike.ops.readout.op import leaky, leaky_scores, ordered_scores

__all__ = ["leaky", "leaky_scores", "ordered_scores"]
