"""The benchmark tasks: each one readable file, run as a module."""
