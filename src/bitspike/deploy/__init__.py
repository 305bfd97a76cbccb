"""Trained networks outside of PyTorch: packed files of one bit a weight, and what runs them.

- `model.py`: a network as plain arrays: all that an engine or an exporter needs to know.
- `describe.py`: a PyTorch network as such a model; `refusals.py`: why one cannot be.
- `packed.py`: packed files are written and read; `packing/`: their bytes.
- `engine.py`: the inference engine; `runtime/`: the C that it runs, and its definition in NumPy.
- `c_export.py`: a network as a folder of C; `c_source/`: what is in it beside the runtime.
- `page/`: a network as one web page that runs it. `pretrained/`: trained networks that come with the package.
"""
