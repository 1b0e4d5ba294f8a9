"""Data sets in LIBSVM's text format: parsed once, then read through memory-mapped arrays."""
