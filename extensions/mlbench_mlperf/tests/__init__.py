"""Scores and convergence by MLPerf's rules, including the examples of the rules."""
