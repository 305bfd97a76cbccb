"""`bitspike predict`: what trained networks say of new files.

- `trained_on.py`: what a network was trained on, so that files can be turned into its input.
- `networks.py`: networks that answer: a run in PyTorch, or a packed file in the engine.
- `files.py`: files of any kind as samples of a network.
- `image_files.py`, `event_files.py`, `value_files.py`: one kind each.
- `predictions.py`: a network's answers to samples, with confidence.
"""
