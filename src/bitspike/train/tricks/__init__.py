"""Tricks of training: each is one file."""
