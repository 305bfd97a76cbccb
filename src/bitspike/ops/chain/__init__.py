"""The training step of a whole network in a few kernels: hidden spikes are bits, the forward pass is exact."""
