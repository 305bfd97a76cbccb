"""Whole training steps of the same network in several libraries, side by side: cases, peers, timing, table, picture."""
