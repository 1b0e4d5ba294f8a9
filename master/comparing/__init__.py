"""Comparing runs: in which facts they differ, which are of one kind, and which are faster."""
