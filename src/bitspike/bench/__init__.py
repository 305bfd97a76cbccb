"""The benchmark of whole training steps in several libraries: cases, peers, timing, table, picture."""
