"""The life of runs: what may be ordered, what becomes of it, sets, workers, and their time."""
