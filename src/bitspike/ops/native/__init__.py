"""The one C extension: how it is loaded, and what it offers."""
