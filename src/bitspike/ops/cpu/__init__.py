"""Layers on spikes on the CPU, in C: proved equal to the plain modules, and done without where they do not apply."""
