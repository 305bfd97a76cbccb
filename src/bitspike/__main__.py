"""The entry point of `python -m bitspike`, which torchrun needs."""

from bitspike.cli import main

main()
