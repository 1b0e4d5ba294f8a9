"""Receivers of values in other formats, from unmodified code, for the worker's metrics file."""
