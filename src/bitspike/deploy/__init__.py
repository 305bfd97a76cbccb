"""Trained networks outside of PyTorch: packed files of one bit a weight, and what runs them.

- `model.py`: a network as plain arrays: all that an engine or an exporter needs to know.
- `describe.py`: a PyTorch network as such a model; `refusals.py`: why one cannot be.
- `packed.py`: packed files are written and read; `packing.py`: their bytes, made of `structure.py` (what is JSON),
  `arrays.py` (what is not), `vector.py` (an input with its answer) and `container.py` (the safetensors file).
- `c_export.py`: a network as a folder of C, with the files of `c_template/` and the runtime; `c_data.py`: data as C
  source, `c_vector.py`: the test vector, `state_size.py`: how much memory it declares, `plain_vector.py`: vectors
  without PyTorch.
- `fields.py`: JSON that nobody vouches for. `limits.py`: upper bounds of what a file may declare.
- `engine.py`: the inference engine; `stream.py`: one step or one event at a time; `c_engine.py`: the C runtime behind
  it; `layout.py`: arrays as that runtime wants them; `plain_engine.py`: the definition of it all, in NumPy.
- `runtime.h`, `runtime.c` and the `runtime_*.h` it includes: the C runtime, which exports emit as it is; `batch.c`,
  `fixed.c`: what only the engine needs of it.
"""
