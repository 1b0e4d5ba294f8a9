"""Comparing runs: facts, differences, groups, summaries."""
