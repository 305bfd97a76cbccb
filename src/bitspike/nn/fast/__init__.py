"""Fast paths: which layers and networks compiled kernels take over from the modules, and why not the others.

- `plain.py`: the conditions that both paths share. It decides what a plain layer is, and gives the reason if it is not.
- `c.py`: single layers in C on the CPU.
- `triton.py`: a whole network in Triton on a GPU; `net.unfused(x)` tells its reasons.
"""
