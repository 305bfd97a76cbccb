"""The one C extension, `_native`, built from the C files of all ops.

- `library.py`: loads it, and knows the signatures that each op's `c.py` declares.
- `interface.c`: what the loader asks to know whether the library was built from the same sources.
- `compiler.h`, `vector.h`: what all C files share.
"""
