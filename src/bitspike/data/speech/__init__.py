"""Recordings of speech: WAV files, and the spikes that a cochlear model makes of them.

- `sound.py`: a sound, and its part that is not silence. `wav.py`: reads WAV files.
- `resampling.py`: brings a sound to another sample rate.
- `cochlea.py`: the whole model, from a recording to the spikes of 700 units.
- `spike_files.py`: writes spikes to npz files, or HDF5 in the layout of the Spiking Heidelberg Digits.
"""
