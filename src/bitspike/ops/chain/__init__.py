"""Several ops in one kernel: a dense layer in C, and all hidden layers of a network in Triton.

The definition is what the modules of nn/block.py do one after the other; forward passes are equal bit for bit.

- `c.py`, `dense.c`: a dense layer on spikes on the CPU: products, bias, dropout and LIF scan in one pass.
- `triton.py`: all hidden layers as one autograd function on a GPU; spikes between layers are bits.
- `triton_scan.py`, `kernels.py`: the LIF scan of one of these layers.
- `first_layer.py`: the gradient of a first convolution on a static image.
- `side_stream.py`: a second CUDA stream, for gradients of weights that nothing waits for.
"""
