"""Ranks, and their processes."""
