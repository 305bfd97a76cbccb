"""Batches of training samples, made on the device where they are used.

- `bins.py`: binned events as values; `scatter.py`: the definition of a batch of them.
- `jitter.py`: the definition of training images that are moved and made brighter or darker.
- `event_jitter.py`: the definition of training events that are moved, stretched and thinned.
- `c.py`, `event_jitter.c`: the same on the CPU.
- `mix.py`: the definition of training events that are mixed with those of another sample.
- `triton.py`, `kernels.py`, `kernels_events.py`: all of them on a GPU, and what an iteration counts.
"""
