"""Layers on spikes on the CPU, in C: each is proved equal to the plain modules and done without where it does not apply."""
