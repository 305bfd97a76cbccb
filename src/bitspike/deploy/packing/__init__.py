"""The bytes of a packed file, made and read; `packed.py` is the way in.

- `content.py`: a whole file's bytes, made of `structure.py` (what is JSON), `arrays.py` (what is not), `vector.py`
  (an input with its answer) and `container.py` (the safetensors file).
- `answers.py`: such an input, and what PyTorch answers; all else here does without PyTorch.
- `fields.py`: JSON that nobody vouches for. `limits.py`: upper bounds of what a file may declare.
"""
