"""Batch norm of every step by its own statistics: T calls of `F.batch_norm`, and fast twins."""
