"""Fast paths: compiled kernels that replace modules of layers and networks, and the reasons why they refuse others.

- `plain.py`: what a plain synapse, pool, batch norm, dropout or neuron layer is, or the reason why it is not one.
- `refusal.py`: why a layer or a network is left to its modules; both paths and `net.unfused(x)` ask there.
- `c.py`: single layers in C on the CPU.
- `triton.py`: a whole network in Triton on a GPU.
"""
