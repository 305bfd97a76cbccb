"""The one C extension, `_native`, built from the C files of all ops.

- `library.py`: the loader, `bitspike/c_library.py`, as ops use it; each op's `c.py` declares its functions there.
- `interface.c`: what the loader asks to know whether the library was built from the same sources.
- `compiler.h`, `vector.h`: what all C files share.
"""
