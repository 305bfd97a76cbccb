"""The folder of C that `c_export.py` writes: its data, made here, and `template/`, which is copied as it is.

- `data.py`: arrays and text as C. `vector.py`, `plain_vector.py`: the test vector that `make check` compares with.
"""
