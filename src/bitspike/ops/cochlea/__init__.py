"""The cochlear model of Cramer et al. 2020 (doi:10.1109/TNNLS.2020.3044364): how an ear turns sound into spikes.

The equations and constants are those of the authors' package lauscher 1.0.1, which the tests compare with.

- `membrane.py`: the basilar membrane, a filter for each place along the cochlea; `hankel.py`: the function it needs.
- `hair_cells.py`: the hair cells, whose transmitter gives the probability of a nerve spike.
- `bushy_cells.py`: nerve fibres, drawn from a seed, and the bushy cells that fire when many of them do.
- `run.py`: the three of them as one.
- `c.py`, `membrane.c`, `cells.c`: the same on the CPU in C.
"""
