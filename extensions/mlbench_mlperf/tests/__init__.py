"""Scores and convergence by MLPerf's rules, with the examples of the rules."""
