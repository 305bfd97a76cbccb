"""The search of hyperparameters: spaces, studies, and what is shown of them.

`parameter.py` is one searched field, `space.py` a search space, `space_checks.py` what is refused when one is read, and
`space_files.py` where spaces come from: `presets/search.toml` and users' files.
"""
