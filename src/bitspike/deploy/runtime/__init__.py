"""The C runtime and its definition in NumPy; `engine.py` is the way in.

- `plain_engine.py`: the definition of what a network computes, step by step.
- `runtime.h`, `runtime.c` and the `runtime_*.h` it includes: the same in C99, which exports emit as it is.
- `batch.c`, `fixed.c`: what only Python needs of it. `c_engine.py` calls them, `layout.py` makes arrays as they want
  them, `stream.py` feeds one step or one event at a time.
- `state_size.py`: the bytes of a network's state, without C.
"""
