"""Experiments: what they are, and the reproduction of the paper's figures and tables."""
