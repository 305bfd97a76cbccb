"""What spikes pass before a synapse: dropout, then for each neuron a delay and a gain.

- `spike_filter.py`: a filter as values, which all twins take.
- `reference.py`: the definition: the ops of `dropout/`, `delay/` and `gain/`, one after another.
- `op.py`: the same in one pass on the CPU, by `c.py` and `filter.c`, float32; `ops/delay` uses parts of them.
- `triton.py`, `kernels.py`: on a GPU; fused networks and `ops/delay` use parts of them.
"""
