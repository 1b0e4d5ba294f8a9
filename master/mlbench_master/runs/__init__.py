"""Runs: requests, limits, lifecycle, workers, benchmark sets, search, diagnosis."""
